// SPDX-License-Identifier: Apache-2.0
#include "sandbox/network_plan.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"

namespace trainyard::sandbox {
namespace {

constexpr std::uint32_t kGatewayHost = 254;
constexpr std::string_view kBridgePrefix = "ty";
constexpr std::size_t kTagLength = 6;
// All links of a gang are in one interface group, so that one request removes them together. The
// upper byte keeps our groups away from small numbers that people choose.
constexpr std::uint32_t kGroupBase = 0x54000000;

bool is_tag(std::string_view text) {
  return text.size() == kTagLength &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::uint32_t mask_of(int length) {
  return length == 0 ? 0 : ~std::uint32_t{0} << (32 - length);
}

Result<std::uint32_t> parse_address(std::string_view text) {
  const Error bad{Code::kInvalidArgument, fmt::format("'{}' is not an IPv4 address", text)};
  const std::vector<std::string_view> parts = split(text, '.');
  if (parts.size() != 4) {
    return bad;
  }
  std::uint32_t address = 0;
  for (const std::string_view part : parts) {
    const Result<std::int64_t> number = parse_int(part);
    if (!number || *number < 0 || *number > 255) {
      return bad;
    }
    address = address << 8 | static_cast<std::uint32_t>(*number);
  }
  return address;
}

std::uint32_t group_of(const std::string& tag) {
  return kGroupBase | static_cast<std::uint32_t>(std::stoul(tag, nullptr, 16));
}

// One of the addresses that anybody may give out; the last byte is that of the IP address.
std::string hardware_address(const std::string& tag, std::uint32_t host) {
  return fmt::format("02:54:{}:{}:{}:{:02x}", tag.substr(0, 2), tag.substr(2, 2), tag.substr(4, 2),
                     host);
}

std::string create_script(const NetworkPlan& plan) {
  const std::string& tag = plan.request.tag;
  std::string script = fmt::format(
      "link add {0} address {4} mtu {1} group {2} type bridge\n"
      "addr add {3}/24 dev {0}\n"
      "link set {0} up\n",
      plan.bridge, kMtu, group_of(tag), plan.gateway, hardware_address(tag, kGatewayHost));
  for (const InstanceLink& link : plan.instances) {
    script += link.create;
  }
  return script;
}

std::string create_link_script(const NetworkPlan& plan, const InstanceLink& link,
                               std::uint32_t host) {
  const std::string& tag = plan.request.tag;
  return fmt::format(
      "netns add {0}\n"
      "link add {1} mtu {2} group {3} master {4} type veth"
      " peer name eth0 address {5} mtu {2} netns {0}\n"
      "link set {1} up\n",
      link.network_namespace, link.veth, kMtu, group_of(tag), plan.bridge,
      hardware_address(tag, host));
}

std::string remove_script(const NetworkPlan& plan) {
  std::string script = fmt::format("link del group {}\n", group_of(plan.request.tag));
  for (const InstanceLink& link : plan.instances) {
    script += fmt::format("netns del {}\n", link.network_namespace);
  }
  return script;
}

// 169.254.170.2 is where the container contract puts the role's credentials.
std::string configure_script(const std::string& address, const std::string& gateway) {
  return fmt::format(
      "addr add 169.254.170.2/32 dev lo\n"
      "link set lo up\n"
      "addr add {}/24 dev eth0\n"
      "link set eth0 up\n"
      "route add default via {}\n",
      address, gateway);
}

constexpr std::string_view kSets = R"(add table ip trainyard
add set ip trainyard gangs { type ifname ; }
add set ip trainyard inside { type ifname . ifname ; }
add set ip trainyard isolated { type ifname ; }
add set ip trainyard gateways { type ifname . ipv4_addr ; }
add set ip trainyard outbound { type ipv4_addr ; flags interval ; }
)";

// The rules never name a gang: a gang comes and goes as elements of the sets. "inside" matters
// where br_netfilter sends bridged packets through here. An isolated gang reaches its own gateway
// and no other address of the host; nobody opens connections into a gang, other gangs included.
constexpr std::string_view kRules =
    R"(add chain ip trainyard input { type filter hook input priority filter ; policy accept ; }
add chain ip trainyard forward { type filter hook forward priority filter ; policy accept ; }
add chain ip trainyard postrouting { type nat hook postrouting priority srcnat ; policy accept ; }
flush chain ip trainyard input
flush chain ip trainyard forward
flush chain ip trainyard postrouting
add rule ip trainyard input iifname . ip daddr @gateways accept
add rule ip trainyard input iifname @isolated drop
add rule ip trainyard forward iifname . oifname @inside accept
add rule ip trainyard forward iifname @isolated drop
add rule ip trainyard forward iifname @gangs ip daddr 169.254.0.0/16 drop
add rule ip trainyard forward oifname @gangs ct state established,related accept
add rule ip trainyard forward oifname @gangs drop
add rule ip trainyard postrouting ip saddr @outbound oifname != @gangs masquerade
)";

std::vector<std::string> elements_of(const NetworkPlan& plan) {
  const std::string set = plan.request.isolated
                              ? fmt::format("isolated {{ \"{}\" }}", plan.bridge)
                              : fmt::format("outbound {{ {} }}", to_string(plan.request.subnet));
  return {fmt::format("gangs {{ \"{}\" }}", plan.bridge),
          fmt::format("inside {{ \"{0}\" . \"{0}\" }}", plan.bridge),
          fmt::format("gateways {{ \"{}\" . {} }}", plan.bridge, plan.gateway), set};
}

std::string open_filter_script(const NetworkPlan& plan) {
  std::string script = std::string(kSets) + std::string(kRules);
  for (const std::string& element : elements_of(plan)) {
    script += fmt::format("add element ip trainyard {}\n", element);
  }
  return script;
}

// Deleting what is not there fails the whole transaction; adding what is there does not. So each
// element is added first, and the script is right whatever it finds.
std::string close_filter_script(const NetworkPlan& plan) {
  std::string script(kSets);
  for (const std::string& element : elements_of(plan)) {
    script +=
        fmt::format("add element ip trainyard {0}\ndelete element ip trainyard {0}\n", element);
  }
  return script;
}

}  // namespace

Result<Ipv4Prefix> parse_prefix(std::string_view text) {
  const std::size_t slash = text.find('/');
  YARD_TRY(const std::uint32_t address, parse_address(text.substr(0, slash)));
  if (slash == std::string_view::npos) {
    return Ipv4Prefix{.address = address, .length = 32};
  }
  const Result<std::int64_t> length = parse_int(text.substr(slash + 1));
  if (!length || *length < 0 || *length > 32) {
    return Error{Code::kInvalidArgument, fmt::format("'{}' is not an IPv4 network", text)};
  }
  const int bits = static_cast<int>(*length);
  return Ipv4Prefix{.address = address & mask_of(bits), .length = bits};
}

std::string address_text(std::uint32_t address) {
  return fmt::format("{}.{}.{}.{}", address >> 24, address >> 16 & 255, address >> 8 & 255,
                     address & 255);
}

std::string to_string(const Ipv4Prefix& prefix) {
  return fmt::format("{}/{}", address_text(prefix.address), prefix.length);
}

bool overlap(const Ipv4Prefix& a, const Ipv4Prefix& b) {
  const std::uint32_t mask = mask_of(std::min(a.length, b.length));
  return (a.address & mask) == (b.address & mask);
}

Result<Ipv4Prefix> choose_subnet(const std::vector<Ipv4Prefix>& pools,
                                 const std::vector<Ipv4Prefix>& taken) {
  std::string in_the_way;
  for (const Ipv4Prefix& pool : pools) {
    const std::uint64_t end =
        std::uint64_t{pool.address} + (std::uint64_t{1} << (32 - pool.length));
    for (std::uint64_t start = pool.address; start + 256 <= end; start += 256) {
      const Ipv4Prefix subnet{.address = static_cast<std::uint32_t>(start), .length = 24};
      const auto user = std::find_if(taken.begin(), taken.end(), [&](const Ipv4Prefix& other) {
        return other.length >= 8 && overlap(subnet, other);
      });
      if (user == taken.end()) {
        return subnet;
      }
      in_the_way = to_string(*user);
    }
  }
  std::vector<std::string> names;
  std::transform(pools.begin(), pools.end(), std::back_inserter(names),
                 [](const Ipv4Prefix& pool) { return to_string(pool); });
  return Error{Code::kExhausted,
               fmt::format("no free /24 for a job's network in {}{}", join(names, ", "),
                           in_the_way.empty()
                               ? std::string()
                               : fmt::format(" (this machine already has {} there)", in_the_way))};
}

Result<NetworkPlan> plan_network(const NetworkRequest& request) {
  if (!is_tag(request.tag) || request.subnet.length != 24) {
    return Error{
        Code::kInvalidArgument,
        fmt::format("a gang's network needs a tag of six hex digits and a /24, not '{}' {}",
                    request.tag, to_string(request.subnet))};
  }
  if (request.instances < 1 || request.instances > kMaxInstances) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{} instances on one machine: it must be 1 to {}", request.instances,
                             kMaxInstances)};
  }
  NetworkPlan plan{.request = request,
                   .bridge = fmt::format("{}{}", kBridgePrefix, request.tag),
                   .gateway = address_text(request.subnet.address + kGatewayHost),
                   .instances = {},
                   .create = {},
                   .remove = {},
                   .open_filter = {},
                   .close_filter = {}};
  for (std::uint32_t i = 1; i <= static_cast<std::uint32_t>(request.instances); ++i) {
    const std::string address = address_text(request.subnet.address + i);
    InstanceLink link{.network_namespace = fmt::format("trainyard-{}-{}", request.tag, i),
                      .veth = fmt::format("{}v{}", plan.bridge, i),
                      .address = address,
                      .create = {},
                      .remove = {},
                      .configure = configure_script(address, plan.gateway)};
    link.create = create_link_script(plan, link, i);
    link.remove = fmt::format("link del {}\nnetns del {}\n", link.veth, link.network_namespace);
    plan.instances.push_back(std::move(link));
  }
  plan.create = create_script(plan);
  plan.remove = remove_script(plan);
  plan.open_filter = open_filter_script(plan);
  plan.close_filter = close_filter_script(plan);
  return plan;
}

std::string remove_filter() {
  return "add table ip trainyard\ndelete table ip trainyard\n";
}

bool is_gang_bridge(std::string_view interface_name) {
  return interface_name.starts_with(kBridgePrefix) &&
         is_tag(interface_name.substr(kBridgePrefix.size()));
}

}  // namespace trainyard::sandbox
