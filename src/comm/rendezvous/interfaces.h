// SPDX-License-Identifier: Apache-2.0
// Which addresses of this machine a rank tells its peers. One syntax for the choice:
//
//   (empty)          automatic: every address of an interface that is up, best first
//   eth0             this interface; `eth*` every one whose name begins so; link-local IPv6
//                    addresses of it with its name ("fe80::1%eth0"), which peers call theirs by,
//                    too
//   10.1.0.0/16      interfaces with an address in this network; fd00::/8 likewise
//   10.1.0.7         the interface with this address
//   a,b              any of these, in this order
//   ^docker0,lo      all but these
//
// Whatever is chosen: 127.0.0.0/8 and ::1 are told to no other host, where they would mean that
// one. Deciding is pure; read_interfaces() is what looks at the machine.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace trainyard::comm {

struct Interface {
  std::string name;
  std::string address;  // "10.0.0.5", "fe80::1"; one entry for each address
  int prefix = 32;      // bits of the network
  bool is_up = true;
  bool is_loopback = false;

  bool operator==(const Interface&) const = default;
};

Result<std::vector<Interface>> read_interfaces();

// The addresses to advertise, best first, without repeats. kNotFound when a choice matches nothing,
// or, with several hosts, only addresses of the loopback: the message lists what there is.
// kInvalidArgument for a choice that cannot be read.
// Automatic: no loopback when the world has several hosts, IPv4 before IPv6 of the same interface,
// link-local IPv4 last; no link-local IPv6, which means nothing without the name of the peer's own
// interface; loopback only when there is nothing else on a world of one host.
Result<std::vector<std::string>> choose_addresses(const std::vector<Interface>& interfaces,
                                                  std::string_view choice, bool several_hosts);

// The order in which a peer's addresses are tried: those in a network of ours first, those that
// another host has as well (a bridge that every node has alike) last.
// `own` are this machine's interfaces, `everyones` the addresses of all other hosts, the peer's
// too.
std::vector<std::string> order_to_try(const std::vector<std::string>& of_peer,
                                      const std::vector<Interface>& own,
                                      const std::vector<std::string>& everyones);

}  // namespace trainyard::comm
