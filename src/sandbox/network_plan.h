// SPDX-License-Identifier: Apache-2.0
// Decides the network of one gang of instances: names, addresses and the very scripts that make and
// unmake it, as one value. network.h carries it out; the plan can be made again from its request
// alone, so that is all that a restarted server has to remember.
//
// A gang gets one bridge with the gateway's address (host 254 of its /24); instance i gets a
// network namespace whose eth0 has host address i, the other end of the veth pair being a port of
// the bridge. Hardware addresses follow from the tag, too: an instance whose link is made anew, and
// the bridge while its ports change, stay who they were to the neighbours that know them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace trainyard::sandbox {

struct Ipv4Prefix {
  std::uint32_t address = 0;  // host byte order, bits past `length` are zero
  int length = 32;

  bool operator==(const Ipv4Prefix&) const = default;
};

// "10.77.0.0/16", or "192.0.2.2" as a /32. Bits past the length are cleared.
Result<Ipv4Prefix> parse_prefix(std::string_view text);
std::string to_string(const Ipv4Prefix& prefix);
std::string address_text(std::uint32_t address);
bool overlap(const Ipv4Prefix& a, const Ipv4Prefix& b);

// The first /24 of `pools` that nothing in `taken` overlaps. Prefixes shorter than /8 in `taken` do
// not count: a VPN's 0.0.0.0/1 is a default route in disguise. kExhausted names what is in the way.
Result<Ipv4Prefix> choose_subnet(const std::vector<Ipv4Prefix>& pools,
                                 const std::vector<Ipv4Prefix>& taken);

constexpr int kMaxInstances = 253;
constexpr int kMtu = 1400;  // leaves room for a tunnel below us

struct NetworkRequest {
  std::string tag;    // six hex digits, unique on the machine
  Ipv4Prefix subnet;  // a /24
  int instances = 1;  // 1 to kMaxInstances
  bool isolated = false;

  bool operator==(const NetworkRequest&) const = default;
};

struct InstanceLink {
  std::string network_namespace;  // as `ip netns` shows it: "trainyard-1a2b3c-1"
  std::string veth;               // the host's end
  std::string address;
  std::string create;     // for `ip -batch` on the host, once the bridge is there
  std::string remove;     // for `ip -force -batch` on the host: what is gone already is no error
  std::string configure;  // for `ip -batch` inside the namespace

  bool operator==(const InstanceLink&) const = default;
};

struct NetworkPlan {
  NetworkRequest request;
  std::string bridge;
  std::string gateway;
  std::vector<InstanceLink> instances;  // [i] is algo-(i+1)
  std::string create;                   // for `ip -batch` on the host
  std::string remove;                   // for `ip -force -batch`: what is gone already is no error
  std::string open_filter;              // for `nft -f`; may be loaded again
  std::string close_filter;             // for `nft -f`; may be loaded again
};

// kInvalidArgument for a request outside the limits above.
Result<NetworkPlan> plan_network(const NetworkRequest& request);

// For `nft -f`: takes our table away, once the last gang has left.
std::string remove_filter();

// Is this the bridge of some gang, of this server or of another on the machine?
bool is_gang_bridge(std::string_view interface_name);

}  // namespace trainyard::sandbox
