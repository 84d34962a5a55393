// SPDX-License-Identifier: Apache-2.0
#include "instance/machine.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <map>
#include <string_view>

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/log.h"
#include "instance/launch/contract.h"
#include "instance/run/private_mounts.h"
#include "instance/transfer/channels.h"
#include "sandbox/mounts.h"

extern char** environ;

namespace trainyard::instance {
namespace {

namespace fs = std::filesystem;

constexpr const char* kResolver = "/etc/resolv.conf";
// Where systemd-resolved keeps the configuration behind its stub.
constexpr const char* kResolverUpstream = "/run/systemd/resolve/resolv.conf";

std::string text_of(const Path& path) {
  Result<std::string> text = read_file(path, std::size_t{1} << 20);
  return text ? std::move(*text) : std::string();
}

// Half of the memory, as Linux does for a tmpfs without a size.
std::uint64_t shared_memory_bytes() {
  struct sysinfo info = {};
  return sysinfo(&info) == 0 ? std::uint64_t{info.totalram} * info.mem_unit / 2 : 0;
}

bool exists(const std::string& path) {
  std::error_code failed;
  return fs::exists(path, failed);
}

// In the container a node has its own name below /dev, wherever the machine keeps it.
Result<std::vector<VisibleFile>> gpu_devices(const wire::Assignment& assignment) {
  std::vector<VisibleFile> devices;
  for (const std::string& node : assignment.gpu_nodes) {
    std::error_code failed;
    if (!fs::is_character_file(node, failed)) {
      return Error{Code::kUnavailable, "the GPU " + node + " of this machine is not there"};
    }
    devices.push_back({node, "/dev/" + Path(node).filename().string()});
  }
  if (!devices.empty()) {
    // Of the driver, not of one GPU.
    for (const char* shared : {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools",
                               "/dev/nvidia-modeset", "/dev/infiniband"}) {
      if (exists(shared)) {
        devices.push_back({shared, shared});
      }
    }
  }
  return devices;
}

Result<void> make_open_directory(const Path& path) {
  YARD_TRY(make_directories(path));
  if (chmod(path.c_str(), 01777) != 0) {
    return errno_error("chmod " + path.string(), errno);
  }
  return {};
}

Result<void> write_contract(const wire::Assignment& assignment, const Path& ml) {
  for (const std::string& directory : contract_directories(assignment)) {
    YARD_TRY(make_directories(ml / directory));
  }
  for (const ContractFile& file : contract_files(assignment)) {
    YARD_TRY(write_file(ml / file.path, file.content));
  }
  return {};
}

bool is_real(const Path& path, fs::file_type type) {
  std::error_code failed;
  return fs::symlink_status(path, failed).type() == type;
}

Result<void> move(const Path& from, const Path& to) {
  std::error_code failed;
  fs::rename(from, to, failed);
  return failed ? errno_error("move " + from.string(), failed.value()) : Result<void>();
}

// Complete channels, by renaming: whatever their size, no byte is read.
Result<void> keep_channels(const Path& old, const Path& data) {
  YARD_TRY(make_directories(data));
  if (!is_real(old, fs::file_type::directory) ||
      !is_real(old / "input", fs::file_type::directory) ||
      !is_real(old / "input/data", fs::file_type::directory)) {
    return {};
  }
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(old / "input/data", failed)) {
    const Path manifest = channel_manifest(entry.path());
    if (!is_real(entry.path(), fs::file_type::directory) ||
        !is_real(manifest, fs::file_type::regular)) {
      continue;
    }
    YARD_TRY(move(entry.path(), data / entry.path().filename()));
    YARD_TRY(move(manifest, data / manifest.filename()));
  }
  return {};
}

// The machine's /opt/ml is only where the container's goes; without root, an /opt is made for the
// container that shows what the machine's holds.
Result<void> provide_opt(bool without_root, ContainerPlaces& places) {
  if (!without_root) {
    return make_directories("/opt/ml");
  }
  std::error_code failed;
  if (fs::is_directory("/opt/ml", failed)) {
    return {};
  }
  places.own_opt = true;
  for (const auto& entry : fs::directory_iterator("/opt", failed)) {
    std::error_code no_link;
    const fs::path link = fs::read_symlink(entry.path(), no_link);
    places.opt.push_back({entry.path().filename().string(), no_link ? "" : link.string()});
  }
  if (failed) {
    return errno_error("look into /opt, where the container's /opt/ml is shown", failed.value());
  }
  return {};
}

// Empty when that is hidden anyway, or when too much of the machine lies in it.
std::string user_home(const Variables& environment) {
  const auto found = environment.find("HOME");
  Path home = found == environment.end() ? Path() : Path(found->second).lexically_normal();
  if (!home.has_filename()) {  // "/data/me/"
    home = home.parent_path();
  }
  std::error_code failed;
  const bool is_deep = std::distance(home.begin(), home.end()) > 2;  // "/", "data", "me"
  const bool is_own = home.is_absolute() && is_deep && fs::is_directory(home, failed);
  return is_own && !home.string().starts_with("/home/") ? home.string() : "";
}

// What lies in a directory that is hidden anyway is left out: nothing is to be mounted there.
void find_secrets(const Variables& environment, ContainerPlaces& places) {
  std::vector<std::string> all = secret_places();
  if (const auto key = environment.find("TRAINYARD_TLS_KEY"); key != environment.end()) {
    all.push_back(key->second);  // of the server
  }
  std::vector<std::string> hidden = hidden_directories(places);
  for (const std::string& secret : all) {
    std::error_code failed;
    const Path real = fs::canonical(secret, failed);
    const bool is_hidden = std::any_of(hidden.begin(), hidden.end(), [&](const Path& directory) {
      return std::mismatch(directory.begin(), directory.end(), real.begin(), real.end()).first ==
             directory.end();
    });
    if (failed || is_hidden) {
      continue;
    }
    if (fs::is_directory(real, failed)) {
      places.secret_directories.push_back(real.string());
      hidden.push_back(real.string());
    } else {
      places.secret_files.push_back(real.string());
    }
  }
}

}  // namespace

Result<void> clear_scratch(const Path& scratch, const std::string& layered) {
  if (!layered.empty() && umount2(layered.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0) {
    return errno_error("unmount the layer over " + layered, errno);
  }
  YARD_TRY(sandbox::unmount_below(scratch));
  const Path old = scratch / "ml.old";
  YARD_TRY(remove_tree(old));
  if (is_real(scratch / "ml", fs::file_type::directory)) {
    YARD_TRY(move(scratch / "ml", old));
  }
  YARD_TRY(keep_channels(old, scratch / "ml/input/data"));
  for (const char* directory : {"ml.old", "tmp", "var-tmp", "python-layer", "status"}) {
    YARD_TRY(remove_tree(scratch / directory));
  }
  return {};
}

Variables own_environment() {
  Variables variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (const std::size_t equals = text.find('='); equals != std::string_view::npos) {
      variables.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return variables;
}

std::vector<NetworkInterface> network_interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    log_warning(errno_error("list the network interfaces", errno).message);
    return {};
  }
  std::map<std::string, NetworkInterface> found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if ((entry->ifa_flags & IFF_UP) == 0) {
      continue;
    }
    NetworkInterface& interface = found[entry->ifa_name];
    interface.name = entry->ifa_name;
    const int family = entry->ifa_addr == nullptr ? AF_UNSPEC : entry->ifa_addr->sa_family;
    const socklen_t size = family == AF_INET    ? sizeof(sockaddr_in)
                           : family == AF_INET6 ? sizeof(sockaddr_in6)
                                                : 0;
    std::array<char, NI_MAXHOST> text = {};
    if (size > 0 && getnameinfo(entry->ifa_addr, size, text.data(), text.size(), nullptr, 0,
                                NI_NUMERICHOST) == 0) {
      interface.addresses.emplace_back(text.data());
    }
  }
  freeifaddrs(list);
  std::vector<NetworkInterface> interfaces;
  interfaces.reserve(found.size());
  for (auto& [name, interface] : found) {
    interfaces.push_back(std::move(interface));
  }
  return interfaces;
}

Path home_of(const Path& scratch, const Variables& environment) {
  const auto configured = environment.find("TRAINYARD_HOME");
  if (configured != environment.end() && exists(configured->second)) {
    return configured->second;
  }
  for (Path path = scratch; path != path.root_path() && !path.empty(); path = path.parent_path()) {
    if (path.filename() == "run" && path.parent_path() != path.root_path()) {
      return path.parent_path();
    }
  }
  return scratch.parent_path();
}

Result<ContainerPlaces> make_places(const wire::Assignment& assignment, const Path& scratch,
                                    const Variables& environment, bool without_root) {
  YARD_TRY(write_contract(assignment, scratch / "ml"));
  YARD_TRY(make_open_directory(scratch / "tmp"));
  YARD_TRY(make_open_directory(scratch / "var-tmp"));
  YARD_TRY(write_file(scratch / "hosts", hosts_file(assignment)));

  ContainerPlaces places;
  places.scratch = scratch.string();
  places.home = home_of(scratch, environment).string();
  places.python_environment = assignment.python_environment;
  YARD_TRY(provide_opt(without_root, places));
  if (without_root) {
    places.user_home = user_home(environment);
  }
  std::error_code failed;
  if (const Path resolver = fs::weakly_canonical(kResolver, failed); exists(kResolver) && !failed) {
    YARD_TRY(write_file(scratch / "resolv.conf",
                        resolver_file(text_of(kResolver), text_of(kResolverUpstream))));
    places.resolver = resolver.string();
  }
  find_secrets(environment, places);
  YARD_TRY(places.devices, gpu_devices(assignment));
  places.shared_memory = shared_memory_bytes();
  // sysfs shows a network namespace, and may be mounted by whoever that belongs to.
  if (without_root) {
    return places;
  }
  if (const Result<void> mounted = mount_sysfs(scratch / "sys"); mounted) {
    places.own_sysfs = true;
  } else {
    log_warning("the container sees the machine's /sys: " + mounted.error().message);
  }
  return places;
}

Result<void> make_checkpoint_place(const CheckpointPlace& place, ContainerPlaces& places) {
  YARD_TRY(make_directories(place.directory));
  if (!can_be_made(container_mounts(places), place.inside)) {
    std::error_code failed;
    if (fs::weakly_canonical(place.inside, failed) != Path(place.inside)) {
      return Error{Code::kInvalidArgument,
                   "CheckpointConfig.LocalPath leads through a link: " + place.inside};
    }
    if (!fs::is_directory(place.inside, failed)) {
      return Error{Code::kInvalidArgument,
                   "CheckpointConfig.LocalPath is " + place.inside +
                       ", and there is no such directory in the container: use one below /opt/ml"};
    }
  }
  places.checkpoints = place.inside;
  return {};
}

}  // namespace trainyard::instance
