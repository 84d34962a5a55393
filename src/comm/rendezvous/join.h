// SPDX-License-Identifier: Apache-2.0
// How the ranks of a world come together: each claims its number in the store and describes itself,
// leaders of hosts open a local socket, rank 0 a TCP one, everyone connects to the one above, and
// nobody returns before all have. Two processes with one number, other sizes, other versions and
// ranks that never come are errors that name them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/rendezvous/control_link.h"
#include "comm/rendezvous/member.h"
#include "comm/rendezvous/sockets.h"
#include "comm/rendezvous/store.h"

namespace trainyard::comm {

// Where a rank takes data connections.
struct DataAddress {
  std::uint16_t port = 0;
  std::vector<std::string> addresses;  // best first
};

struct Joined {
  std::vector<Member> members;
  Hosts hosts;
  std::string secret;  // of this world: who knows it may connect

  std::unique_ptr<ControlLink> up;
  std::map<std::int32_t, std::unique_ptr<ControlLink>> down;
  std::vector<Fd> segments;  // shared memory of the ranks of this host; none for one alone on it
  std::string settings;      // what rank 0 gave to all

  TcpListener data;                         // open when there are several hosts
  std::vector<DataAddress> data_addresses;  // by rank, then
};

// `make_segments(n)` makes the shared memory for n ranks; called by leaders. `settings` of rank 0
// goes to all.
using MakeSegments = std::function<Result<std::vector<Fd>>(std::int32_t local_size)>;
Result<Joined> join(const CommunicatorOptions& options, RendezvousStore& store,
                    const MakeSegments& make_segments, const std::string& settings);

// Returns once all ranks have called it: each is then ready for the messages of the others. Gives
// the least of all ranks' values, one by one.
Result<std::vector<std::uint64_t>> meet(Joined& joined, const CommunicatorOptions& options,
                                        std::vector<std::uint64_t> values);

}  // namespace trainyard::comm
