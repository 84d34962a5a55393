// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <span>

#include <fmt/format.h>

#include "base/text.h"
#include "doctor/diagnose.h"
#include "instance/launch/efa.h"

namespace trainyard::doctor {
namespace {

constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;
constexpr std::uint64_t kGibibyte = std::uint64_t{1} << 30;

// Sends without a copy (MSG_ZEROCOPY) pin what is under way, and count as locked.
constexpr std::uint64_t kLockedForTcp = 64 * kMebibyte;
constexpr std::uint64_t kFewFiles = 4096;
constexpr std::uint64_t kTooFewFiles = 256;
constexpr std::uint64_t kSmallShm = kGibibyte;
constexpr std::uint64_t kLittleSpace = 10 * kGibibyte;
constexpr std::uint64_t kNoSpace = kGibibyte;
constexpr std::chrono::milliseconds kSlowSync{20};
constexpr std::chrono::milliseconds kSlowestSync{200};
constexpr std::chrono::seconds kMostClockError{1};
constexpr std::array<std::string_view, 2> kVolatile = {"tmpfs", "ramfs"};
constexpr std::array<std::string_view, 4> kRemote = {"nfs", "cifs", "smb2", "fuse"};

std::string in_words(std::uint64_t bytes) {
  if (bytes == kUnlimited) {
    return "unlimited";
  }
  return bytes >= kGibibyte ? fmt::format("{:.1f} GiB", static_cast<double>(bytes) /
                                                            static_cast<double>(kGibibyte))
                            : fmt::format("{} MiB", bytes / kMebibyte);
}

Finding locked_memory(const Facts& facts) {
  const Limit& limit = facts.memory.locked;
  const bool has_efa = instance::efa_of(facts.instance_type) != instance::EfaKind::kNone ||
                       !facts.fabric.efa_devices.empty();
  Finding finding{.check = "limits.memlock",
                  .verdict = Verdict::kOk,
                  .meaning = fmt::format("memory that may be locked: {}", in_words(limit.soft))};
  if (has_efa && limit.soft != kUnlimited) {
    finding.verdict = limit.soft < kLockedForTcp ? Verdict::kBad : Verdict::kWarn;
    finding.meaning += "; libfabric registers, and so locks, all it sends from";
    finding.remedy =
        "memlock unlimited in /etc/security/limits.conf, LimitMEMLOCK=infinity for "
        "a service";
  } else if (limit.soft < kLockedForTcp) {
    finding.verdict = Verdict::kWarn;
    finding.meaning += "; large sends between hosts are copied when it is used up";
    finding.remedy = limit.hard < kLockedForTcp
                         ? "a memlock of 64 MiB or more in /etc/security/limits.conf"
                         : "ulimit -l 65536";
  }
  return finding;
}

Finding open_files(const Limit& limit) {
  Finding finding{
      .check = "limits.nofile",
      .verdict = Verdict::kOk,
      .meaning = limit.soft == kUnlimited
                     ? "files that a process may have open: unlimited"
                     : fmt::format("files that a process may have open: {}", limit.soft)};
  if (limit.soft < kFewFiles) {
    finding.verdict = limit.soft < kTooFewFiles ? Verdict::kBad : Verdict::kWarn;
    finding.meaning += "; each rank has several connections to each other, and data loaders more";
    finding.remedy = limit.hard >= kFewFiles ? fmt::format("ulimit -n {}", kFewFiles)
                                             : "a nofile of 65536 in /etc/security/limits.conf";
  }
  return finding;
}

// Our own collectives use anonymous memory; PyTorch's data loaders use this.
Finding shared_memory(const MemoryFacts& memory) {
  if (!memory.shm_bytes) {
    return {.check = "limits.shm",
            .verdict = Verdict::kBad,
            .meaning = "there is no /dev/shm: workers of data loaders cannot hand over batches",
            .remedy = "mount -t tmpfs -o mode=1777 tmpfs /dev/shm"};
  }
  const bool is_small = *memory.shm_bytes < kSmallShm;
  return {
      .check = "limits.shm",
      .verdict = is_small ? Verdict::kWarn : Verdict::kOk,
      .meaning = fmt::format("/dev/shm holds {}{}", in_words(*memory.shm_bytes),
                             is_small ? ": workers of data loaders may die of a bus error" : ""),
      .remedy = is_small ? "mount -o remount,size=50% /dev/shm; of a container, --shm-size" : ""};
}

Finding huge_pages(const MemoryFacts& memory) {
  const bool has_none = memory.transparent_huge_pages == "never";
  return {
      .check = "limits.huge_pages",
      .verdict = has_none ? Verdict::kWarn : Verdict::kOk,
      .meaning = fmt::format("huge pages: {} reserved, transparent ones {}{}", memory.huge_pages,
                             memory.transparent_huge_pages.empty() ? "unknown to the kernel"
                                                                   : memory.transparent_huge_pages,
                             has_none ? ": large buffers cost more misses" : ""),
      .remedy = has_none ? "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled" : ""};
}

Finding enclosure(const SandboxFacts& sandbox) {
  if (sandbox.may_make_networks) {
    return {.check = "sandbox.instances",
            .verdict = Verdict::kOk,
            .meaning = "instances get namespaces and networks of their own"};
  }
  if (sandbox.user_namespaces.empty()) {
    return {.check = "sandbox.instances",
            .verdict = Verdict::kOk,
            .meaning = sandbox.is_root
                           ? "instances get namespaces of their own and share the machine's "
                             "network (trainyard server --network loopback)"
                           : "instances get namespaces of their own, without root; they share the "
                             "machine's network"};
  }
  return {.check = "sandbox.instances",
          .verdict = Verdict::kBad,
          .meaning = "no instance can be enclosed here: " + sandbox.user_namespaces,
          .remedy = "change that setting, or start the server as root; docs/without-root.md"};
}

std::string package_of(const std::string& tool) {
  return tool == "bwrap" ? "bubblewrap" : tool == "ip" ? "iproute2" : "nftables";
}

Findings tools(const SandboxFacts& sandbox) {
  std::vector<std::string> missing;
  std::vector<std::string> packages;
  for (const std::string& tool : sandbox.missing_tools) {
    if (tool == "bwrap" || sandbox.may_make_networks) {  // networks are what the others make
      missing.push_back(tool);
      packages.push_back(package_of(tool));
    }
  }
  if (missing.empty()) {
    return {};
  }
  return {{.check = "sandbox.tools",
           .verdict = Verdict::kBad,
           .meaning = fmt::format("missing: {}; instances are made with it", join(missing, ", ")),
           .remedy = "apt-get install " + join(packages, " ")}};
}

Finding groups(const SandboxFacts& sandbox) {
  return {.check = "sandbox.limits",
          .verdict = sandbox.has_cgroups ? Verdict::kOk : Verdict::kWarn,
          .meaning = sandbox.has_cgroups
                         ? "there are control groups for the memory of instances"
                         : "no control group limits memory: a job may take all of it",
          .remedy =
              sandbox.has_cgroups
                  ? ""
                  : "loginctl enable-linger; systemd-run --user --scope -p Delegate=yes ./yard up; "
                    "docs/without-root.md"};
}

bool is_one_of(std::string_view name, std::span<const std::string_view> all) {
  return std::ranges::any_of(all, [&](std::string_view one) { return name.starts_with(one); });
}

Finding disk(const HomeFacts& home) {
  Finding finding{.check = "home.disk",
                  .verdict = Verdict::kOk,
                  .meaning = fmt::format("{} on {}, {} free", home.path, home.file_system,
                                         in_words(home.free_bytes))};
  if (is_one_of(home.file_system, kVolatile)) {
    finding.verdict = Verdict::kWarn;
    finding.meaning += ": jobs, objects and keys are lost when the machine restarts";
    finding.remedy = "TRAINYARD_HOME on a disk";
  } else if (is_one_of(home.file_system, kRemote)) {
    finding.verdict = Verdict::kWarn;
    finding.meaning += ": locks and syncs of a network's file system are not to be relied on";
    finding.remedy = "TRAINYARD_HOME on a disk of this machine";
  } else if (home.free_bytes < kLittleSpace) {
    finding.verdict = home.free_bytes < kNoSpace ? Verdict::kBad : Verdict::kWarn;
    finding.meaning += ": checkpoints and models will not fit";
    finding.remedy = "make room, or TRAINYARD_HOME on another disk";
  }
  return finding;
}

Finding durability(const HomeFacts& home) {
  const double milliseconds = std::chrono::duration<double, std::milli>(home.sync).count();
  Finding finding{
      .check = "home.sync",
      .verdict = Verdict::kOk,
      .meaning = fmt::format("what is written there is durable after {:.1f} ms", milliseconds)};
  if (home.sync > kSlowSync) {
    finding.verdict = home.sync > kSlowestSync ? Verdict::kBad : Verdict::kWarn;
    finding.meaning += ": each request that changes something waits that long";
    finding.remedy = "TRAINYARD_HOME on a disk with a safe write cache, such as an SSD";
  }
  return finding;
}

}  // namespace

Findings diagnose_limits(const Facts& facts) {
  return {locked_memory(facts), open_files(facts.memory.open_files), shared_memory(facts.memory),
          huge_pages(facts.memory)};
}

Findings diagnose_sandbox(const Facts& facts) {
  Findings findings = {enclosure(facts.sandbox)};
  std::ranges::move(tools(facts.sandbox), std::back_inserter(findings));
  findings.push_back(groups(facts.sandbox));
  return findings;
}

Findings diagnose_clock(const Facts& facts) {
  const ClockFacts& clock = facts.clock;
  const bool is_off =
      clock.is_known && (!clock.is_synchronized || clock.most_error > kMostClockError);
  return {{.check = "clock.sync",
           .verdict = is_off ? Verdict::kWarn : Verdict::kOk,
           .meaning = is_off ? "the clock is not kept right: a signature is refused at 15 minutes' "
                               "difference, and logs of several hosts do not fit together"
                      : clock.is_known ? "the clock is kept right"
                                       : "whether the clock is kept right cannot be seen here",
           .remedy = is_off ? "apt-get install chrony" : ""}};
}

Findings diagnose_home(const Facts& facts) {
  if (!facts.home.error.empty()) {
    return {{.check = "home.disk",
             .verdict = Verdict::kBad,
             .meaning = fmt::format("{}: {}", facts.home.path, facts.home.error),
             .remedy = "TRAINYARD_HOME names another place, or --home"}};
  }
  return {disk(facts.home), durability(facts.home)};
}

}  // namespace trainyard::doctor
