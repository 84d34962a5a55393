// SPDX-License-Identifier: Apache-2.0
#include "sandbox/network.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <linux/capability.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "base/thread.h"

namespace trainyard::sandbox {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr const char* kForwarding = "/proc/sys/net/ipv4/ip_forward";
constexpr const char* kCongestion = "/proc/sys/net/ipv4/tcp_congestion_control";
constexpr const char* kAllowedCongestion = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
constexpr const char* kAvailableCongestion = "/proc/sys/net/ipv4/tcp_available_congestion_control";

// A server's PATH often lacks the directories of system tools.
Result<Path> find_tool(std::string_view name, std::string_view package) {
  const char* path = getenv("PATH");
  const std::string all = fmt::format("{}:/usr/sbin:/sbin", path == nullptr ? "/usr/bin" : path);
  for (const std::string_view directory : split(all, ':')) {
    Path candidate = Path(directory) / name;
    if (candidate.is_absolute() && access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
  }
  return Error{Code::kNotFound,
               fmt::format("'{}' is not installed; instances need it for their networks: install "
                           "the package {}",
                           name, package)};
}

// Root of a container often lacks these, so the user id says nothing.
Result<void> check_capabilities() {
  YARD_TRY(const std::string status, read_file("/proc/thread-self/status"));
  constexpr std::string_view kField = "CapEff:";
  std::uint64_t effective = 0;
  if (const std::size_t at = status.find(kField); at != std::string::npos) {
    effective = std::strtoull(status.c_str() + at + kField.size(), nullptr, 16);
  }
  std::vector<std::string> missing;
  if ((effective >> CAP_NET_ADMIN & 1) == 0) {
    missing.emplace_back("CAP_NET_ADMIN");
  }
  if ((effective >> CAP_SYS_ADMIN & 1) == 0) {
    missing.emplace_back("CAP_SYS_ADMIN");
  }
  if (!missing.empty()) {
    return Error{Code::kDenied,
                 fmt::format("a network for each instance needs {}: run the server as root",
                             join(missing, " and "))};
  }
  return {};
}

Result<FileLock> lock_machine(const Path& file, milliseconds time) {
  const auto deadline = steady_clock::now() + time;
  for (;;) {
    Result<FileLock> lock = FileLock::acquire(file);
    if (lock || lock.error().code != Code::kConflict || steady_clock::now() >= deadline) {
      return lock;
    }
    std::this_thread::sleep_for(milliseconds(2));  // flock has no time-out of its own
  }
}

// A script as a descriptor that a tool reads as its standard input: nobody has to feed a pipe.
Result<Fd> as_input(const std::string& text) {
  Fd fd(memfd_create("script", MFD_CLOEXEC));
  if (!fd.is_open()) {
    return errno_error("memfd_create", errno);
  }
  YARD_TRY(write_all(fd.get(), text));
  if (lseek(fd.get(), 0, SEEK_SET) != 0) {
    return errno_error("lseek", errno);
  }
  return fd;
}

Result<void> write_sysctl(const std::string& path, std::string_view value) {
  YARD_TRY(const Fd fd, open_file(path, O_WRONLY));
  if (auto written = write_all(fd.get(), value); !written) {
    return written.error().in(fmt::format("setting {} to {}", path, value));
  }
  return {};
}

Result<std::string> read_sysctl(const std::string& path) {
  YARD_TRY(const std::string text, read_file(path));
  return std::string(trim(text));
}

// The addresses of interfaces that are down have no routes, so both are asked.
std::vector<Ipv4Prefix> interface_prefixes() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) {
    return {};
  }
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(first, freeifaddrs);
  std::vector<Ipv4Prefix> prefixes;
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET ||
        each->ifa_netmask == nullptr) {
      continue;
    }
    const auto* address = reinterpret_cast<const sockaddr_in*>(each->ifa_addr);
    const auto* mask = reinterpret_cast<const sockaddr_in*>(each->ifa_netmask);
    const std::uint32_t bits = ntohl(mask->sin_addr.s_addr);
    prefixes.push_back(
        {.address = ntohl(address->sin_addr.s_addr) & bits, .length = std::countl_one(bits)});
  }
  return prefixes;
}

Result<std::vector<Ipv4Prefix>> parse_routes(const std::string& text) {
  const nlohmann::json routes = nlohmann::json::parse(text, nullptr, false);
  if (!routes.is_array()) {
    return Error{Code::kInternal, "'ip -j route' printed something that is not a list of routes"};
  }
  std::vector<Ipv4Prefix> prefixes;
  for (const nlohmann::json& route : routes) {
    const auto destination = route.is_object() ? route.find("dst") : route.end();
    if (destination == route.end() || !destination->is_string()) {
      continue;
    }
    if (const auto prefix = parse_prefix(destination->get<std::string>())) {  // not "default"
      prefixes.push_back(*prefix);
    }
  }
  return prefixes;
}

std::vector<std::string> interface_names() {
  struct if_nameindex* all = if_nameindex();
  if (all == nullptr) {
    return {};
  }
  const std::unique_ptr<struct if_nameindex, void (*)(struct if_nameindex*)> owner(
      all, if_freenameindex);
  std::vector<std::string> names;
  for (const struct if_nameindex* each = all; each->if_name != nullptr; ++each) {
    names.emplace_back(each->if_name);
  }
  return names;
}

bool is_there_a_gang() {
  return std::ranges::any_of(interface_names(), is_gang_bridge);
}

// What kind of interface it is, as the kernel calls it; empty when it does not say.
std::string driver_of(const Fd& socket, const std::string& name) {
  ethtool_drvinfo info{};
  info.cmd = ETHTOOL_GDRVINFO;
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_data = reinterpret_cast<char*>(&info);
  const bool is_told = ioctl(socket.get(), SIOCETHTOOL, &request) == 0;
  return is_told ? std::string(info.driver, strnlen(info.driver, sizeof(info.driver))) : "";
}

// Interfaces by which others let this machine forward: of containers, virtual machines, VPNs.
std::set<std::string> routers_of_others() {
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  std::set<std::string> found;
  for (const std::string& name : interface_names()) {
    const std::string driver = driver_of(socket, name);
    if (!is_gang_bridge(name) && (driver == "bridge" || driver == "tun" || driver == "wireguard")) {
      found.insert(name);
    }
  }
  return found;
}

// Some kernels start with bbr, which halves what a veth pair carries. A namespace may choose cubic
// only while the host allows it to everyone; the host's list is put back as soon as it has.
class CubicAllowed {
 public:
  CubicAllowed() {
    const auto allowed = read_sysctl(kAllowedCongestion);
    const auto available = read_sysctl(kAvailableCongestion);
    if (!allowed || !available || allowed->find("cubic") != std::string::npos ||
        available->find("cubic") == std::string::npos) {
      return;
    }
    if (write_sysctl(kAllowedCongestion, *allowed + " cubic")) {
      before_ = *allowed;
    }
  }
  CubicAllowed(const CubicAllowed&) = delete;
  CubicAllowed& operator=(const CubicAllowed&) = delete;
  ~CubicAllowed() {
    if (before_.empty()) {
      return;
    }
    if (auto restored = write_sysctl(kAllowedCongestion, before_); !restored) {
      log_warning(restored.error().message);
    }
  }

 private:
  std::string before_;
};

// Without IPv6 addresses on the links nothing gets round the IPv4 filter. A kernel without IPv6 or
// without cubic is as good.
void tune_instance() {
  static_cast<void>(write_sysctl("/proc/sys/net/ipv6/conf/eth0/disable_ipv6", "1"));
  static_cast<void>(write_sysctl(kCongestion, "cubic"));
}

}  // namespace

Result<NetworkChange> NetworkChange::begin(const NetworkOptions& options) {
  YARD_TRY(check_capabilities());
  YARD_TRY(Path ip, find_tool("ip", "iproute2"));
  YARD_TRY(Path nft, find_tool("nft", "nftables"));
  YARD_TRY(make_directories(options.state_directory));
  YARD_TRY(FileLock lock, lock_machine(options.state_directory / "network.lock", options.deadline));
  NetworkChange change(options, std::move(lock));
  change.ip_ = std::move(ip);
  change.nft_ = std::move(nft);
  return change;
}

Result<NetworkPlan> NetworkChange::choose(const std::string& tag, int instances,
                                          bool isolated) const {
  std::vector<Ipv4Prefix> pools;
  for (const std::string& text : options_.pools) {
    YARD_TRY(const Ipv4Prefix pool, parse_prefix(text));
    pools.push_back(pool);
  }
  YARD_TRY(const Output routes,
           run_command({.argv = {ip_.string(), "-4", "-j", "route", "show", "table", "all"},
                        .env = {},
                        .inherit_env = true},
                       options_.deadline));
  if (!routes.status.ok()) {
    return Error{Code::kUnavailable, fmt::format("'ip route' failed: {}", trim(routes.err))};
  }
  YARD_TRY(std::vector<Ipv4Prefix> taken, parse_routes(routes.out));
  const std::vector<Ipv4Prefix> addresses = interface_prefixes();
  taken.insert(taken.end(), addresses.begin(), addresses.end());
  YARD_TRY(const Ipv4Prefix subnet, choose_subnet(pools, taken));
  YARD_TRY(
      NetworkPlan plan,
      plan_network({.tag = tag, .subnet = subnet, .instances = instances, .isolated = isolated}));
  if (if_nametoindex(plan.bridge.c_str()) != 0) {
    return Error{Code::kAlreadyExists, fmt::format("bridge {} exists", plan.bridge)};
  }
  return plan;
}

Result<void> NetworkChange::run_tool(const Path& tool, std::vector<std::string> arguments,
                                     const std::string& script, int network_namespace) const {
  YARD_TRY(const Fd input, as_input(script));
  SpawnOptions options{.argv = {tool.string()}, .env = {}, .inherit_env = true};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  options.fds = {{input.get(), STDIN_FILENO}};
  if (network_namespace >= 0) {
    options.network_namespace = network_namespace;
  }
  YARD_TRY(const Output output, run_command(options, options_.deadline));
  if (output.status.ok()) {
    return {};
  }
  const bool refused = output.err.find("Operation not permitted") != std::string::npos;
  return Error{refused ? Code::kDenied : Code::kUnavailable,
               fmt::format("'{} {}' failed ({}): {}", tool.filename().string(),
                           join(arguments, " "), to_string(output.status), trim(output.err))};
}

Result<void> NetworkChange::make_all(const NetworkPlan& plan) const {
  YARD_TRY(run_tool(ip_, {"-batch", "-"}, plan.create));
  static_cast<void>(
      write_sysctl(fmt::format("/proc/sys/net/ipv6/conf/{}/disable_ipv6", plan.bridge), "1"));
  // Closed before it is opened: the filter stands before anything can be forwarded.
  YARD_TRY(run_tool(nft_, {"-f", "-"}, plan.open_filter));
  if (!plan.request.isolated) {
    YARD_TRY(enable_forwarding());
  }
  return configure(plan.instances);
}

Result<void> NetworkChange::configure(const std::vector<InstanceLink>& links) const {
  const CubicAllowed while_we_tune;
  for (const InstanceLink& link : links) {
    YARD_TRY(const Fd inside, open_namespace(link.network_namespace));
    YARD_TRY(run_in_namespace(inside.get(), [] {
      tune_instance();
      return Result<void>();
    }));
    YARD_TRY(run_tool(ip_, {"-batch", "-"}, link.configure, inside.get()));
  }
  return {};
}

Result<void> NetworkChange::apply(const NetworkPlan& plan) const {
  Result<void> made = make_all(plan);
  if (made) {
    return made;
  }
  if (auto undone = undo(plan); !undone) {
    log_error(undone.error().in("undoing a network that could not be made").message);
  }
  return made.error().in("making the network of the instances");
}

Result<void> NetworkChange::renew(const NetworkPlan& plan,
                                  const std::vector<InstanceLink>& links) const {
  std::string remove;
  std::string create;
  for (const InstanceLink& link : links) {
    remove += link.remove;
    create += link.create;
  }
  // What cannot be removed is in the way of what is created, and told then.
  static_cast<void>(run_tool(ip_, {"-force", "-batch", "-"}, remove));
  if (auto created = run_tool(ip_, {"-batch", "-"}, create); !created) {
    return created.error().in(fmt::format("making links of {} anew", plan.bridge));
  }
  return configure(links);
}

Result<void> NetworkChange::undo(const NetworkPlan& plan) const {
  // Its exit status tells of things that were gone already, so what counts is the look afterwards.
  const Result<void> removed = run_tool(ip_, {"-force", "-batch", "-"}, plan.remove);
  const std::string reason = removed ? std::string() : ": " + removed.error().message;
  if (if_nametoindex(plan.bridge.c_str()) != 0) {
    return Error{Code::kUnavailable, fmt::format("bridge {} stays{}", plan.bridge, reason)};
  }
  for (const InstanceLink& link : plan.instances) {
    if (access(namespace_path(link.network_namespace).c_str(), F_OK) == 0) {
      return Error{Code::kUnavailable,
                   fmt::format("network namespace {} stays{}", link.network_namespace, reason)};
    }
  }
  const bool last = !is_there_a_gang();
  if (last) {
    YARD_TRY(restore_forwarding());
  }
  return run_tool(nft_, {"-f", "-"}, last ? remove_filter() : plan.close_filter);
}

Result<void> NetworkChange::enable_forwarding() const {
  YARD_TRY(const std::string before, read_sysctl(kForwarding));
  if (before == "1") {
    return {};
  }
  // Remembered first: after a crash between the two, restoring is harmless.
  const std::set<std::string> others = routers_of_others();
  YARD_TRY(write_file(forwarding_file(), join({others.begin(), others.end()}, " ")));
  return write_sysctl(kForwarding, "1");
}

// Who has begun to forward since found it switched on already, and needs it to stay: Docker, for
// one, looks only when it starts.
Result<void> NetworkChange::restore_forwarding() const {
  const Result<std::string> before = read_file(forwarding_file());
  if (!before) {
    return before.error().code == Code::kNotFound ? Result<void>() : before.error();
  }
  std::set<std::string> others = routers_of_others();
  for (const std::string_view name : split(*before, ' ')) {
    others.erase(std::string(name));
  }
  if (others.empty()) {
    YARD_TRY(write_sysctl(kForwarding, "0"));
  } else {
    log_info(fmt::format("net.ipv4.ip_forward stays on, because {} may need it", *others.begin()));
  }
  std::error_code failure;
  std::filesystem::remove(forwarding_file(), failure);
  return {};
}

std::string namespace_path(const std::string& name) {
  return "/run/netns/" + name;
}

Result<Fd> open_namespace(const std::string& name) {
  return open_file(namespace_path(name), O_RDONLY);
}

Result<void> run_in_namespace(int network_namespace, const std::function<Result<void>()>& body) {
  Result<void> result;
  // A thread of its own: only a thread can be inside, and ours must not stay there.
  start_thread("netns", [&](const std::stop_token&) {
    if (setns(network_namespace, CLONE_NEWNET) != 0) {
      result = errno_error("setns", errno);
    } else {
      result = body();
    }
  }).join();
  return result;
}

}  // namespace trainyard::sandbox
