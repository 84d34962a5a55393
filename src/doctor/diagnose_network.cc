// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "doctor/diagnose.h"
#include "instance/launch/efa.h"

namespace trainyard::doctor {
namespace {

constexpr std::int64_t kSlow = 10'000;  // Mbit/s

std::string value_of(const Facts& facts, const std::string& name) {
  const auto found = facts.environment.find(name);
  return found == facts.environment.end() ? "" : found->second;
}

// What jobs on this instance type are given; programs that are started by hand are not.
void check_efa_variables(const Facts& facts, Findings& findings) {
  std::string missing;
  for (const auto& [name, wanted] : instance::efa_variables(facts.instance_type)) {
    const std::string value = value_of(facts, name);
    if (value.empty()) {
      missing += fmt::format("{}{}={}", missing.empty() ? "" : " ", name, wanted);
    } else if (value != wanted) {
      findings.push_back({.check = "variables." + name,
                          .verdict = Verdict::kWarn,
                          .meaning = fmt::format("{}={}; for {}, AWS advises {}", name, value,
                                                 facts.instance_type, wanted),
                          .remedy = fmt::format(
                              "unset it, or export {}={}, unless it is on purpose", name, wanted)});
    }
  }
  if (!missing.empty()) {
    findings.push_back(
        {.check = "variables.efa",
         .verdict = Verdict::kWarn,
         .meaning =
             "jobs get them from Trainyard, programs that you start yourself do not: " + missing,
         .remedy = "export " + missing});
  }
}

void check_provider_filter(const Facts& facts, Findings& findings) {
  const std::string only = value_of(facts, "FI_PROVIDER");
  const bool is_efa_missing = only == "efa" && facts.fabric.efa_devices.empty();
  if (is_efa_missing) {
    findings.push_back({.check = "variables.FI_PROVIDER",
                        .verdict = Verdict::kBad,
                        .meaning = "FI_PROVIDER=efa, and there is no EFA device: libfabric finds "
                                   "nothing else either",
                        .remedy = "unset FI_PROVIDER"});
  }
}

void check_fork_safety(const Facts& facts, Findings& findings) {
  if (!value_of(facts, "RDMAV_FORK_SAFE").empty()) {
    findings.push_back({.check = "variables.RDMAV_FORK_SAFE",
                        .verdict = Verdict::kWarn,
                        .meaning = "RDMAV_FORK_SAFE makes processes fail on newer kernels",
                        .remedy = "unset it; FI_EFA_FORK_SAFE=1 does what is meant"});
  }
}

// NCCL's form: prefixes with commas, "=" before all for whole names, "^" before all to exclude.
void check_socket_interface(const Facts& facts, Findings& findings) {
  std::string choice = value_of(facts, "NCCL_SOCKET_IFNAME");
  if (choice.empty() || choice.front() == '^') {
    return;
  }
  const bool is_whole = choice.front() == '=';
  choice.erase(0, is_whole ? 1 : 0);
  for (std::size_t start = 0; start <= choice.size();) {
    const std::size_t comma = std::min(choice.find(',', start), choice.size());
    const std::string word = choice.substr(start, comma - start);
    const bool is_there = std::ranges::any_of(facts.network.interfaces, [&](const auto& one) {
      return is_whole ? one.name == word : one.name.starts_with(word);
    });
    if (is_there) {
      return;
    }
    start = comma + 1;
  }
  findings.push_back(
      {.check = "variables.NCCL_SOCKET_IFNAME",
       .verdict = Verdict::kBad,
       .meaning = fmt::format("NCCL_SOCKET_IFNAME={}, and no interface is called so: NCCL cannot "
                              "begin",
                              value_of(facts, "NCCL_SOCKET_IFNAME")),
       .remedy = "unset it, or name an interface that is there"});
}

std::string describe(const comm::Interface& interface, const NetworkFacts& network) {
  const auto speed = network.speeds.find(interface.name);
  return fmt::format("{} of {}{}", interface.address, interface.name,
                     speed == network.speeds.end()
                         ? ""
                         : fmt::format(" ({} Gbit/s)", static_cast<double>(speed->second) / 1000));
}

}  // namespace

Findings diagnose_variables(const Facts& facts) {
  Findings findings;
  check_efa_variables(facts, findings);
  check_provider_filter(facts, findings);
  check_fork_safety(facts, findings);
  check_socket_interface(facts, findings);
  if (findings.empty()) {
    findings.push_back({.check = "variables",
                        .verdict = Verdict::kOk,
                        .meaning = "no variable of NCCL or libfabric is in the way"});
  }
  return findings;
}

Findings diagnose_network(const Facts& facts) {
  const NetworkFacts& network = facts.network;
  const auto addresses = comm::choose_addresses(network.interfaces, network.choice, true);
  const std::string why = network.choice.empty()
                              ? "automatic: all that are up, but loopback; link-local ones last"
                              : fmt::format("TRAINYARD_COMM_INTERFACE={}", network.choice);
  if (!addresses) {
    return {{.check = "network.interfaces",
             .verdict = network.choice.empty() ? Verdict::kWarn : Verdict::kBad,
             .meaning = addresses.error().message + ": ranks on several hosts cannot meet",
             .remedy = network.choice.empty()
                           ? "connect this machine, if it is to train with others"
                           : "unset TRAINYARD_COMM_INTERFACE, or name one of these"}};
  }
  std::string chosen;
  bool is_slow = false;
  for (const std::string& address : *addresses) {
    const auto found = std::ranges::find(network.interfaces, address, &comm::Interface::address);
    chosen += (chosen.empty() ? "" : ", then ") + describe(*found, network);
    const auto speed = network.speeds.find(found->name);
    is_slow = is_slow || (address == addresses->front() && speed != network.speeds.end() &&
                          speed->second > 0 && speed->second < kSlow);
  }
  Findings findings = {{.check = "network.interfaces",
                        .verdict = Verdict::kOk,
                        .meaning = fmt::format("collectives use {} ({})", chosen, why)}};
  if (is_slow) {
    findings.push_back(
        {.check = "network.speed",
         .verdict = Verdict::kWarn,
         .meaning = "the first choice is slower than 10 Gbit/s: between hosts, "
                    "gradients will wait for it",
         .remedy = "name a faster one in TRAINYARD_COMM_INTERFACE, if there is one"});
  }
  return findings;
}

}  // namespace trainyard::doctor
