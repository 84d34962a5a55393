// SPDX-License-Identifier: Apache-2.0
// The network of a gang where nobody may make one: the machine's own. Each instance gets an address
// of the loopback, and the gang a range of ports, because a program that listens on every address
// is in the way of every job of the machine. Both follow from one number, the gang's block:
//
//   block 7    127.77.7.0/24    algo-1 is 127.77.7.1, ..., the gateway is 127.77.7.254
//              12700-12799      first: MASTER_PORT; then the remote shell of MPI, the credentials
//                               of an instance, the gateway; the rest is the program's own
//
// Pure: loopback.h finds out which blocks are free.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "sandbox/network_plan.h"

namespace trainyard::sandbox {

// Below 32768, where Linux takes the ports of outgoing connections from by default.
inline constexpr int kBlocks = 200;
inline constexpr int kPortsInBlock = 100;
inline constexpr std::uint16_t kFirstPort = 12'000;

struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;  // inclusive

  std::uint16_t master() const { return first; }
  std::uint16_t remote_shell() const { return static_cast<std::uint16_t>(first + 1); }
  std::uint16_t credentials() const { return static_cast<std::uint16_t>(first + 2); }
  std::uint16_t gateway() const { return static_cast<std::uint16_t>(first + 3); }
  // "12704-12799": what is left to the program.
  std::string for_program() const;

  bool operator==(const PortRange&) const = default;
};

std::string to_string(const PortRange& range);  // "12700-12799"
// kInvalidArgument for anything but a range that holds all of the above.
Result<PortRange> parse_ports(std::string_view text);

Ipv4Prefix subnet_of_block(int block);
int block_of(const Ipv4Prefix& subnet);
bool is_loopback(const Ipv4Prefix& subnet);
// Of a gang whose subnet is subnet_of_block(...).
PortRange ports_of(const Ipv4Prefix& subnet);

// A plan without any script: there is nothing to be made. kInvalidArgument for what plan_network
// refuses, for another subnet, and for a gang of several instances that asks to be isolated: they
// would need a network of their own to reach each other and nobody else.
Result<NetworkPlan> plan_loopback(const NetworkRequest& request);

}  // namespace trainyard::sandbox
