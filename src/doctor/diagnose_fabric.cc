// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "doctor/diagnose.h"
#include "instance/launch/efa.h"

namespace trainyard::doctor {
namespace {

using instance::efa_of;
using instance::EfaKind;

constexpr const char* kInstaller =
    "run Amazon's efa_installer (EC2 User Guide, \"Get started with EFA\")";

bool has(const std::vector<std::string>& all, std::string_view one) {
  return std::ranges::find(all, one) != all.end();
}

bool wants_efa(const Facts& facts) {
  return efa_of(facts.instance_type) != EfaKind::kNone || !facts.fabric.efa_devices.empty();
}

std::string chosen_provider(const Facts& facts) {
  const auto found = facts.environment.find("TRAINYARD_COMM_FABRIC");
  return found == facts.environment.end() ? "" : found->second;
}

Finding device(const Facts& facts) {
  const auto& devices = facts.fabric.efa_devices;
  if (!devices.empty()) {
    return {.check = "efa.device",
            .verdict = Verdict::kOk,
            .meaning = fmt::format("{} EFA devices: {}", devices.size(), join(devices, ", "))};
  }
  if (!wants_efa(facts)) {
    return {.check = "efa.device",
            .verdict = Verdict::kOk,
            .meaning = "no EFA device, and nothing says that there should be one"};
  }
  return {.check = "efa.device",
          .verdict = Verdict::kBad,
          .meaning = fmt::format("no EFA device, though {} has one: collectives go over TCP",
                                 facts.instance_type),
          .remedy = "attach an interface of type EFA to the instance, and load the module efa; " +
                    std::string(kInstaller)};
}

// Who asks for a provider that is not there cannot begin; who might is told.
Finding library(const Facts& facts) {
  const std::string provider = chosen_provider(facts);
  if (!facts.fabric.version.empty()) {
    return {.check = "fabric.library",
            .verdict = Verdict::kOk,
            .meaning = fmt::format("libfabric {}, with the providers {}", facts.fabric.version,
                                   join(facts.fabric.providers, ", "))};
  }
  if (provider.empty() && !wants_efa(facts)) {
    return {.check = "fabric.library",
            .verdict = Verdict::kOk,
            .meaning = "no libfabric; it is used where TRAINYARD_COMM_FABRIC names a provider"};
  }
  return {.check = "fabric.library",
          .verdict = Verdict::kBad,
          .meaning = "no libfabric, and it is needed: " + facts.fabric.error,
          .remedy = wants_efa(facts) ? kInstaller : "apt-get install libfabric1"};
}

Findings providers(const Facts& facts) {
  Findings findings;
  const std::string provider = chosen_provider(facts);
  if (!provider.empty() && !facts.fabric.version.empty() &&
      !has(facts.fabric.providers, provider)) {
    findings.push_back(
        {.check = "fabric.provider",
         .verdict = Verdict::kBad,
         .meaning = fmt::format("TRAINYARD_COMM_FABRIC={}, and libfabric has no such provider here",
                                provider),
         .remedy = "name one of: " + join(facts.fabric.providers, ", ")});
  }
  if (!wants_efa(facts)) {
    return findings;
  }
  const bool has_provider = has(facts.fabric.providers, "efa");
  findings.push_back({.check = "efa.provider",
                      .verdict = has_provider ? Verdict::kOk : Verdict::kBad,
                      .meaning = has_provider
                                     ? "libfabric reaches the EFA devices"
                                     : "libfabric has no provider \"efa\" for this machine",
                      .remedy = has_provider ? "" : kInstaller});
  return findings;
}

Findings nccl(const Facts& facts) {
  if (!wants_efa(facts) || facts.gpu.devices.empty()) {
    return {};
  }
  if (!facts.fabric.nccl_plugins.empty()) {
    return {{.check = "nccl.plugin",
             .verdict = Verdict::kOk,
             .meaning = "aws-ofi-nccl: " + facts.fabric.nccl_plugins.front()}};
  }
  return {{.check = "nccl.plugin",
           .verdict = Verdict::kBad,
           .meaning = "aws-ofi-nccl is not found: NCCL does not use EFA, and goes over TCP",
           .remedy = std::string(kInstaller) + ", or name its folder in LD_LIBRARY_PATH"}};
}

// Without it data goes through the memory of the host: right, and slower.
Findings gpu_direct(const Facts& facts) {
  if (facts.gpu.devices.empty() || efa_of(facts.instance_type) == EfaKind::kPlain ||
      !wants_efa(facts)) {
    return {};
  }
  const auto& modules = facts.gpu.kernel_modules;
  const auto module = std::ranges::find_if(modules, [](const std::string& one) {
    return one == "nvidia_peermem" || one == "nv_peer_mem" || one == "efa_nv_peermem";
  });
  Findings findings;
  if (module != modules.end()) {
    findings.push_back({.check = "gpu.direct",
                        .verdict = Verdict::kOk,
                        .meaning = "GPUDirect RDMA, by the module " + *module});
  } else {
    findings.push_back(
        {.check = "gpu.direct",
         .verdict = Verdict::kWarn,
         .meaning = "no module for GPUDirect RDMA is loaded: without dma-buf, data of GPUs goes "
                    "through the host's memory",
         .remedy = "modprobe nvidia_peermem (or efa_nv_peermem), or use a kernel and a driver with "
                   "dma-buf: Linux 5.12 and NVIDIA's open modules"});
  }
  findings.push_back({.check = "gpu.copy",
                      .verdict = facts.gpu.has_gdrdrv ? Verdict::kOk : Verdict::kWarn,
                      .meaning = facts.gpu.has_gdrdrv
                                     ? "GDRCopy is there"
                                     : "no GDRCopy (/dev/gdrdrv): small messages of GPUs are "
                                       "slower, and SMDDP's all-gather needs it",
                      .remedy = facts.gpu.has_gdrdrv ? "" : "install gdrcopy and load gdrdrv"});
  return findings;
}

void append(Findings& to, Findings from) {
  std::ranges::move(from, std::back_inserter(to));
}

}  // namespace

Findings diagnose_fabric(const Facts& facts) {
  Findings findings = {library(facts)};
  append(findings, providers(facts));
  findings.push_back(device(facts));
  append(findings, nccl(facts));
  append(findings, gpu_direct(facts));
  return findings;
}

Findings diagnose(const Facts& facts) {
  Findings findings;
  for (const auto part : {diagnose_fabric, diagnose_variables, diagnose_network, diagnose_limits,
                          diagnose_sandbox, diagnose_clock, diagnose_home}) {
    append(findings, part(facts));
  }
  return findings;
}

}  // namespace trainyard::doctor
