// SPDX-License-Identifier: Apache-2.0
#include "doctor/diagnose.h"

#include <algorithm>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::doctor {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr std::uint64_t kGibibyte = std::uint64_t{1} << 30;

// A server with all that it needs: nothing to say about it.
Facts sound() {
  Facts facts;
  facts.fabric = {.version = "1.17",
                  .error = "",
                  .providers = {"tcp;ofi_rxm", "shm"},
                  .efa_devices = {},
                  .nccl_plugins = {}};
  facts.network.interfaces = {
      {.name = "lo", .address = "127.0.0.1", .prefix = 8, .is_loopback = true},
      {.name = "ens5", .address = "10.0.0.5", .prefix = 24}};
  facts.network.speeds = {{"ens5", 25'000}};
  facts.memory = {.locked = {kUnlimited, kUnlimited},
                  .open_files = {65'536, 65'536},
                  .shm_bytes = 64 * kGibibyte,
                  .huge_pages = 0,
                  .transparent_huge_pages = "madvise"};
  facts.sandbox = {.is_root = true,
                   .may_make_networks = true,
                   .missing_tools = {},
                   .user_namespaces = "",
                   .has_cgroups = true};
  facts.clock = {.is_known = true, .is_synchronized = true, .most_error = milliseconds(5)};
  facts.home = {.path = "/var/lib/trainyard",
                .error = "",
                .file_system = "ext4",
                .free_bytes = 500 * kGibibyte,
                .sync = milliseconds(2)};
  return facts;
}

// An instance with GPUs and adapters, set up as AWS says.
Facts sound_p4d() {
  Facts facts = sound();
  facts.instance_type = "ml.p4d.24xlarge";
  facts.fabric.providers = {"efa", "shm"};
  facts.fabric.efa_devices = {"rdmap16s27", "rdmap32s27"};
  facts.fabric.nccl_plugins = {"/opt/amazon/ofi-nccl/lib/libnccl-net.so"};
  facts.gpu = {.devices = {"/dev/nvidia0"},
               .kernel_modules = {"nvidia", "efa", "nvidia_peermem"},
               .has_gdrdrv = true};
  facts.environment = {{"FI_PROVIDER", "efa"},
                       {"FI_EFA_FORK_SAFE", "1"},
                       {"FI_EFA_USE_HUGE_PAGE", "0"},
                       {"FI_EFA_USE_DEVICE_RDMA", "1"},
                       {"NCCL_PROTO", "simple"}};
  return facts;
}

// What is said under this name when `change` is made to the facts; "nothing" by default.
Finding find(Facts facts, const std::function<void(Facts&)>& change, const std::string& check) {
  change(facts);
  const Findings findings = diagnose(facts);
  const auto found = std::ranges::find(findings, check, &Finding::check);
  return found == findings.end() ? Finding{.check = check, .meaning = "nothing"} : *found;
}

struct Case {
  std::string name;
  Facts facts;
  std::function<void(Facts&)> change;
  std::string check;
  Verdict verdict;
  std::string meaning;
};

class DiagnoseTest : public ::testing::TestWithParam<Case> {};

TEST_P(DiagnoseTest, Says) {
  const Case& given = GetParam();
  const Finding found = find(given.facts, given.change, given.check);
  EXPECT_EQ(found.verdict, given.verdict) << found.meaning;
  EXPECT_THAT(found.meaning, HasSubstr(given.meaning));
  EXPECT_EQ(found.remedy.empty(), found.verdict == Verdict::kOk) << found.remedy;
}

const Case kFabricCases[] = {
    {"LibraryWhereNobodyNeedsIt", sound(), [](Facts& f) { f.fabric.version = ""; },
     "fabric.library", Verdict::kOk, "no libfabric"},
    {"LibraryWhereItIsAskedFor", sound(),
     [](Facts& f) {
       f.fabric.version = "";
       f.fabric.error = "not installed";
       f.environment["TRAINYARD_COMM_FABRIC"] = "shm";
     },
     "fabric.library", Verdict::kBad, "needed: not installed"},
    {"ProviderThatIsNotThere", sound(),
     [](Facts& f) { f.environment["TRAINYARD_COMM_FABRIC"] = "efa"; }, "fabric.provider",
     Verdict::kBad, "no such provider"},
    {"NoDeviceElsewhere", sound(), [](Facts&) {}, "efa.device", Verdict::kOk, "no EFA device"},
    {"Devices", sound_p4d(), [](Facts&) {}, "efa.device", Verdict::kOk, "2 EFA devices"},
    {"DeviceThatIsMissing", sound_p4d(), [](Facts& f) { f.fabric.efa_devices.clear(); },
     "efa.device", Verdict::kBad, "though ml.p4d.24xlarge has one"},
    {"EfaProvider", sound_p4d(), [](Facts&) {}, "efa.provider", Verdict::kOk, "reaches"},
    {"EfaProviderThatIsMissing", sound_p4d(), [](Facts& f) { f.fabric.providers = {"shm"}; },
     "efa.provider", Verdict::kBad, "no provider \"efa\""},
    {"EfaProviderWithADeviceOnly", sound(), [](Facts& f) { f.fabric.efa_devices = {"rdmap0s6"}; },
     "efa.provider", Verdict::kBad, "no provider \"efa\""},
    {"Plugin", sound_p4d(), [](Facts&) {}, "nccl.plugin", Verdict::kOk, "libnccl-net.so"},
    {"PluginThatIsMissing", sound_p4d(), [](Facts& f) { f.fabric.nccl_plugins.clear(); },
     "nccl.plugin", Verdict::kBad, "NCCL does not use EFA"},
    {"PluginWithoutGpus", sound_p4d(),
     [](Facts& f) {
       f.fabric.nccl_plugins.clear();
       f.gpu.devices.clear();
     },
     "nccl.plugin", Verdict::kOk, "nothing"},
    {"GpuDirect", sound_p4d(), [](Facts&) {}, "gpu.direct", Verdict::kOk, "nvidia_peermem"},
    {"GpuDirectThatIsMissing", sound_p4d(), [](Facts& f) { f.gpu.kernel_modules = {"nvidia"}; },
     "gpu.direct", Verdict::kWarn, "no module for GPUDirect"},
    {"GpuDirectWhereTheAdapterCannot", sound_p4d(),
     [](Facts& f) {
       f.instance_type = "ml.g5.48xlarge";
       f.gpu.kernel_modules.clear();
     },
     "gpu.direct", Verdict::kOk, "nothing"},
    {"GdrCopyThatIsMissing", sound_p4d(), [](Facts& f) { f.gpu.has_gdrdrv = false; }, "gpu.copy",
     Verdict::kWarn, "no GDRCopy"},
};

const Case kVariableCases[] = {
    {"NothingInTheWay", sound(), [](Facts&) {}, "variables", Verdict::kOk, "no variable"},
    {"AllThatAwsAdvises", sound_p4d(), [](Facts&) {}, "variables", Verdict::kOk, "no variable"},
    {"MissingOnes", sound_p4d(), [](Facts& f) { f.environment.erase("NCCL_PROTO"); },
     "variables.efa", Verdict::kWarn, "NCCL_PROTO=simple"},
    {"OtherValues", sound_p4d(), [](Facts& f) { f.environment["NCCL_PROTO"] = "LL128"; },
     "variables.NCCL_PROTO", Verdict::kWarn, "NCCL_PROTO=LL128"},
    {"EfaWithoutADevice", sound(), [](Facts& f) { f.environment["FI_PROVIDER"] = "efa"; },
     "variables.FI_PROVIDER", Verdict::kBad, "no EFA device"},
    {"RdmavForkSafe", sound(), [](Facts& f) { f.environment["RDMAV_FORK_SAFE"] = "1"; },
     "variables.RDMAV_FORK_SAFE", Verdict::kWarn, "newer kernels"},
    {"AnInterfaceThatIsNotThere", sound(),
     [](Facts& f) { f.environment["NCCL_SOCKET_IFNAME"] = "eth0"; }, "variables.NCCL_SOCKET_IFNAME",
     Verdict::kBad, "NCCL_SOCKET_IFNAME=eth0"},
    {"AWholeNameThatIsAPrefix", sound(),
     [](Facts& f) { f.environment["NCCL_SOCKET_IFNAME"] = "=ens"; }, "variables.NCCL_SOCKET_IFNAME",
     Verdict::kBad, "=ens"},
    {"APrefix", sound(), [](Facts& f) { f.environment["NCCL_SOCKET_IFNAME"] = "eth,en"; },
     "variables.NCCL_SOCKET_IFNAME", Verdict::kOk, "nothing"},
    {"AnExclusion", sound(), [](Facts& f) { f.environment["NCCL_SOCKET_IFNAME"] = "^docker"; },
     "variables.NCCL_SOCKET_IFNAME", Verdict::kOk, "nothing"},
};

const Case kMachineCases[] = {
    {"TheInterfaceThatIsUsed", sound(), [](Facts&) {}, "network.interfaces", Verdict::kOk,
     "10.0.0.5 of ens5 (25 Gbit/s)"},
    {"AChoiceThatMatchesNothing", sound(), [](Facts& f) { f.network.choice = "ib0"; },
     "network.interfaces", Verdict::kBad, "\"ib0\""},
    {"NoNetwork", sound(), [](Facts& f) { f.network.interfaces.resize(1); }, "network.interfaces",
     Verdict::kWarn, "no network interface reaches other hosts"},
    {"ASlowNetwork", sound(), [](Facts& f) { f.network.speeds["ens5"] = 1000; }, "network.speed",
     Verdict::kWarn, "slower than 10 Gbit/s"},
    {"LittleLockedMemory", sound(),
     [](Facts& f) {
       f.memory.locked = {8U << 20, 8U << 20};
     },
     "limits.memlock", Verdict::kWarn, "8 MiB; large sends"},
    {"LittleLockedMemoryForEfa", sound_p4d(),
     [](Facts& f) {
       f.memory.locked = {8U << 20, 8U << 20};
     },
     "limits.memlock", Verdict::kBad, "registers"},
    {"LimitedLockedMemoryForEfa", sound_p4d(),
     [](Facts& f) {
       f.memory.locked = {kGibibyte, kGibibyte};
     },
     "limits.memlock", Verdict::kWarn, "1.0 GiB"},
    {"FewFiles", sound(),
     [](Facts& f) {
       f.memory.open_files = {1024, 4096};
     },
     "limits.nofile", Verdict::kWarn, "1024"},
    {"TooFewFiles", sound(),
     [](Facts& f) {
       f.memory.open_files = {64, 64};
     },
     "limits.nofile", Verdict::kBad, "64"},
    {"NoShm", sound(), [](Facts& f) { f.memory.shm_bytes.reset(); }, "limits.shm", Verdict::kBad,
     "no /dev/shm"},
    {"ASmallShm", sound(), [](Facts& f) { f.memory.shm_bytes = 64U << 20; }, "limits.shm",
     Verdict::kWarn, "bus error"},
    {"NoHugePages", sound(), [](Facts& f) { f.memory.transparent_huge_pages = "never"; },
     "limits.huge_pages", Verdict::kWarn, "never"},
    {"RootWithoutNetworks", sound(), [](Facts& f) { f.sandbox.may_make_networks = false; },
     "sandbox.instances", Verdict::kOk, "--network loopback"},
    {"AnOrdinaryUser", sound(),
     [](Facts& f) {
       f.sandbox = {.missing_tools = {"nft"}, .user_namespaces = "", .has_cgroups = true};
     },
     "sandbox.instances", Verdict::kOk, "without root"},
    {"AnOrdinaryUserNeedsNoNft", sound(),
     [](Facts& f) {
       f.sandbox = {.missing_tools = {"nft"}, .user_namespaces = "", .has_cgroups = true};
     },
     "sandbox.tools", Verdict::kOk, "nothing"},
    {"NoNamespaces", sound(),
     [](Facts& f) {
       f.sandbox.may_make_networks = false;
       f.sandbox.user_namespaces = "user.max_user_namespaces is 0";
     },
     "sandbox.instances", Verdict::kBad, "user.max_user_namespaces is 0"},
    {"NoBubblewrap", sound(), [](Facts& f) { f.sandbox.missing_tools = {"bwrap"}; },
     "sandbox.tools", Verdict::kBad, "bwrap"},
    {"NoGroups", sound(), [](Facts& f) { f.sandbox.has_cgroups = false; }, "sandbox.limits",
     Verdict::kWarn, "may take all of it"},
    {"AClockThatNobodySets", sound(), [](Facts& f) { f.clock.is_synchronized = false; },
     "clock.sync", Verdict::kWarn, "not kept right"},
    {"AClockThatIsUncertain", sound(),
     [](Facts& f) { f.clock.most_error = std::chrono::seconds(2); }, "clock.sync", Verdict::kWarn,
     "not kept right"},
    {"AClockThatCannotBeAsked", sound(), [](Facts& f) { f.clock = {}; }, "clock.sync", Verdict::kOk,
     "cannot be seen"},
    {"AHomeThatCannotBeWritten", sound(), [](Facts& f) { f.home.error = "read-only"; }, "home.disk",
     Verdict::kBad, "/var/lib/trainyard: read-only"},
    {"AHomeInMemory", sound(), [](Facts& f) { f.home.file_system = "tmpfs"; }, "home.disk",
     Verdict::kWarn, "lost"},
    {"AHomeOnANetwork", sound(), [](Facts& f) { f.home.file_system = "nfs"; }, "home.disk",
     Verdict::kWarn, "not to be relied on"},
    {"AFullDisk", sound(), [](Facts& f) { f.home.free_bytes = 100U << 20; }, "home.disk",
     Verdict::kBad, "100 MiB free"},
    {"ASlowDisk", sound(), [](Facts& f) { f.home.sync = milliseconds(35); }, "home.sync",
     Verdict::kWarn, "35.0 ms"},
    {"AVerySlowDisk", sound(), [](Facts& f) { f.home.sync = milliseconds(900); }, "home.sync",
     Verdict::kBad, "900.0 ms"},
};

std::string name_of_case(const ::testing::TestParamInfo<Case>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Fabric, DiagnoseTest, ::testing::ValuesIn(kFabricCases), name_of_case);
INSTANTIATE_TEST_SUITE_P(Variables, DiagnoseTest, ::testing::ValuesIn(kVariableCases),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Machine, DiagnoseTest, ::testing::ValuesIn(kMachineCases), name_of_case);

TEST(Diagnose, FindsNothingWrongWithSoundMachines) {
  for (const Facts& facts : {sound(), sound_p4d()}) {
    for (const Finding& one : diagnose(facts)) {
      EXPECT_EQ(one.verdict, Verdict::kOk) << one.check << ": " << one.meaning;
    }
  }
}

TEST(Diagnose, NamesEachCheckOnce) {
  std::vector<std::string> names;
  for (const Finding& one : diagnose(sound_p4d())) {
    names.push_back(one.check);
  }
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
}

}  // namespace
}  // namespace trainyard::doctor
