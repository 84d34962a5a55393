// SPDX-License-Identifier: Apache-2.0
#include "doctor/gather.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include "base/subprocess.h"
#include "base/text.h"
#include "comm/transport/fabric/provider.h"
#include "instance/machine.h"
#include "sandbox/cgroup.h"

namespace trainyard::doctor {
namespace {

using std::chrono::microseconds;
using std::chrono::steady_clock;

constexpr std::chrono::seconds kProbeTime{20};
constexpr std::size_t kSyncs = 7;
constexpr std::size_t kSyncBytes = 4096;

std::vector<std::string> names_in(const Path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(folder, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    names.push_back(entry->path().filename());
  }
  std::ranges::sort(names);
  return names;
}

std::string line_of(const Path& file) {
  const auto text = read_file(file);
  return text ? std::string(trim(*text)) : "";
}

bool is_there(const Path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

bool is_of_efa(const std::string& device) {
  std::error_code error;
  const Path driver = std::filesystem::read_symlink(
      Path("/sys/class/infiniband") / device / "device/driver", error);
  return !error && driver.filename() == "efa";
}

std::vector<Path> library_folders(const std::map<std::string, std::string>& environment) {
  std::vector<Path> folders = {
      "/opt/amazon/ofi-nccl/lib",  "/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu",
      "/opt/aws-ofi-nccl/lib",     "/usr/local/lib",
      "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"};
  const auto path = environment.find("LD_LIBRARY_PATH");
  if (path != environment.end()) {
    for (const std::string_view one : split(path->second, ':')) {
      folders.emplace_back(one);
    }
  }
  return folders;
}

FabricFacts gather_fabric(const std::map<std::string, std::string>& environment) {
  FabricFacts facts;
  auto survey = comm::survey_fabric();
  if (survey) {
    facts.version = survey->version;
    facts.providers = std::move(survey->providers);
  } else {
    facts.error = survey.error().message;
  }
  for (const std::string& device : names_in("/sys/class/infiniband")) {
    if (is_of_efa(device)) {
      facts.efa_devices.push_back(device);
    }
  }
  for (const Path& folder : library_folders(environment)) {
    for (const char* name : {"libnccl-net.so", "libnccl-net-ofi.so"}) {
      if (!folder.empty() && is_there(folder / name)) {
        facts.nccl_plugins.push_back((folder / name).string());
      }
    }
  }
  return facts;
}

GpuFacts gather_gpu() {
  GpuFacts facts;
  for (const std::string& name : names_in("/dev")) {
    constexpr std::string_view kGpu = "nvidia";
    if (name.starts_with(kGpu) && parse_int(std::string_view(name).substr(kGpu.size()))) {
      facts.devices.push_back("/dev/" + name);
    }
  }
  const auto modules = read_file("/proc/modules");
  facts.kernel_modules = modules ? modules_of(*modules) : std::vector<std::string>();
  facts.has_gdrdrv = is_there("/dev/gdrdrv");
  return facts;
}

NetworkFacts gather_network(const std::map<std::string, std::string>& environment) {
  NetworkFacts facts;
  if (auto interfaces = comm::read_interfaces()) {
    facts.interfaces = std::move(*interfaces);
  }
  for (const comm::Interface& one : facts.interfaces) {
    const auto speed = parse_int(line_of(Path("/sys/class/net") / one.name / "speed"));
    if (speed && *speed > 0) {
      facts.speeds[one.name] = *speed;
    }
  }
  const auto choice = environment.find("TRAINYARD_COMM_INTERFACE");
  facts.choice = choice == environment.end() ? "" : choice->second;
  return facts;
}

Limit limit_of(__rlimit_resource resource) {
  rlimit limit{};
  ::getrlimit(resource, &limit);
  const auto in_ours = [](rlim_t value) {
    return value == RLIM_INFINITY ? kUnlimited : static_cast<std::uint64_t>(value);
  };
  return {.soft = in_ours(limit.rlim_cur), .hard = in_ours(limit.rlim_max)};
}

MemoryFacts gather_memory() {
  MemoryFacts facts;
  facts.locked = limit_of(RLIMIT_MEMLOCK);
  facts.open_files = limit_of(RLIMIT_NOFILE);
  struct statfs shm {};
  if (::statfs("/dev/shm", &shm) == 0) {
    facts.shm_bytes = static_cast<std::uint64_t>(shm.f_blocks) * shm.f_bsize;
  }
  const auto reserved = parse_int(line_of("/proc/sys/vm/nr_hugepages"));
  facts.huge_pages = reserved ? static_cast<std::uint64_t>(*reserved) : 0;
  facts.transparent_huge_pages = chosen_of(line_of("/sys/kernel/mm/transparent_hugepage/enabled"));
  return facts;
}

// Of this process, as the kernel writes them: CapEff in /proc/self/status.
bool has_capabilities(std::initializer_list<int> wanted) {
  const auto status = read_file("/proc/self/status");
  constexpr std::string_view kLine = "\nCapEff:\t";
  const std::size_t at = status ? status->find(kLine) : std::string::npos;
  if (at == std::string::npos) {
    return false;
  }
  const std::uint64_t held = std::strtoull(status->c_str() + at + kLine.size(), nullptr, 16);
  return std::ranges::all_of(wanted, [&](int one) { return (held >> one & 1) != 0; });
}

bool is_on_path(const std::map<std::string, std::string>& environment, std::string_view tool) {
  const auto path = environment.find("PATH");
  std::vector<std::string_view> folders = {"/usr/sbin", "/sbin", "/usr/bin", "/bin"};
  if (path != environment.end()) {
    const auto own = split(path->second, ':');
    folders.insert(folders.end(), own.begin(), own.end());
  }
  return std::ranges::any_of(folders, [&](std::string_view folder) {
    return ::access((Path(folder) / tool).c_str(), X_OK) == 0;
  });
}

SandboxFacts gather_sandbox(const std::map<std::string, std::string>& environment,
                            const Path& program) {
  constexpr int kNetAdmin = 12;  // linux/capability.h
  constexpr int kSysAdmin = 21;
  SandboxFacts facts;
  facts.is_root = ::geteuid() == 0;
  facts.may_make_networks = facts.is_root && has_capabilities({kNetAdmin, kSysAdmin});
  for (const char* tool : {"bwrap", "ip", "nft"}) {
    if (!is_on_path(environment, tool)) {
      facts.missing_tools.emplace_back(tool);
    }
  }
  const auto probe =
      run_command({.argv = {program.string(), "instance-probe"}, .inherit_env = true}, kProbeTime);
  if (!probe) {
    facts.user_namespaces = "they could not be tried: " + probe.error().message;
  } else if (!probe->status.ok()) {
    facts.user_namespaces = std::string(trim(probe->err));
  }
  facts.has_cgroups = std::ranges::any_of(sandbox::find_hierarchies(), [](const auto& one) {
    return std::ranges::find(one.controllers, "memory") != one.controllers.end() &&
           sandbox::may_divide(one);
  });
  return facts;
}

ClockFacts gather_clock() {
  timex state{};
  const int code = ::adjtimex(&state);
  return {.is_known = code >= 0,
          .is_synchronized = code >= 0 && code != TIME_ERROR && (state.status & STA_UNSYNC) == 0,
          .most_error = microseconds(state.maxerror)};
}

std::string name_of_file_system(long magic) {
  struct Known {
    long magic;
    const char* name;
  };
  // linux/magic.h
  constexpr std::array<Known, 9> kKnown = {{{0xef53, "ext4"},
                                            {0x58465342, "xfs"},
                                            {0x9123683e, "btrfs"},
                                            {0x01021994, "tmpfs"},
                                            {0x858458f6, "ramfs"},
                                            {0x6969, "nfs"},
                                            {0xff534d42, "cifs"},
                                            {0x794c7630, "overlay"},
                                            {0x65735546, "fuse"}}};
  const auto found = std::ranges::find(kKnown, magic, &Known::magic);
  return found == kKnown.end() ? "a file system" : found->name;
}

// Of what will hold the home, where that is not there yet.
Path existing_part(Path path) {
  while (!is_there(path) && path.has_relative_path()) {
    path = path.parent_path();
  }
  return path;
}

Result<microseconds> time_of_sync(const Path& folder) {
  YARD_TRY(const Fd file, open_file(folder, O_TMPFILE | O_WRONLY));
  const std::string block(kSyncBytes, 'x');
  std::array<microseconds, kSyncs> times{};
  for (microseconds& time : times) {
    const auto begin = steady_clock::now();
    YARD_TRY(write_all(file.get(), block));
    if (::fdatasync(file.get()) != 0) {
      return errno_error("sync", errno);
    }
    time = std::chrono::duration_cast<microseconds>(steady_clock::now() - begin);
  }
  std::ranges::nth_element(times, times.begin() + kSyncs / 2);
  return times[kSyncs / 2];
}

HomeFacts gather_home(const Path& home) {
  HomeFacts facts;
  facts.path = home.string();
  const Path folder = existing_part(home);
  struct statfs status {};
  if (::statfs(folder.c_str(), &status) != 0) {
    facts.error = errno_error("look at its disk", errno).message;
    return facts;
  }
  facts.file_system = name_of_file_system(status.f_type);
  facts.free_bytes = static_cast<std::uint64_t>(status.f_bavail) * status.f_bsize;
  const Result<microseconds> time = time_of_sync(folder);
  if (time) {
    facts.sync = *time;
  } else {
    facts.error = time.error().message;
  }
  return facts;
}

}  // namespace

std::string chosen_of(const std::string& text) {
  const std::size_t open = text.find('[');
  const std::size_t close = text.find(']');
  return open == std::string::npos || close == std::string::npos || close < open
             ? ""
             : text.substr(open + 1, close - open - 1);
}

std::vector<std::string> modules_of(const std::string& text) {
  std::vector<std::string> names;
  for (const std::string_view line : split(text, '\n')) {
    const std::string_view name = line.substr(0, line.find(' '));
    if (!name.empty()) {
      names.emplace_back(name);
    }
  }
  return names;
}

Facts gather(const Subject& subject) {
  Facts facts;
  facts.instance_type = subject.instance_type;
  facts.environment = instance::own_environment();
  facts.fabric = gather_fabric(facts.environment);
  facts.gpu = gather_gpu();
  facts.network = gather_network(facts.environment);
  facts.memory = gather_memory();
  facts.sandbox = gather_sandbox(facts.environment, subject.program);
  facts.clock = gather_clock();
  facts.home = gather_home(subject.home);
  return facts;
}

}  // namespace trainyard::doctor
