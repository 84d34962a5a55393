// SPDX-License-Identifier: Apache-2.0
// What a rank says of itself in the store, and what all of them together mean: who shares a host,
// and who speaks for it. Values and pure functions, but for read_this_machine().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "comm/schedule/algorithms.h"

namespace trainyard::comm {

struct Member {
  std::int32_t rank = 0;
  std::int32_t size = 1;          // of the world, as this rank was told
  std::string host_key = {};      // equal: the ranks reach each other by local sockets
  std::string host_name = {};     // for people
  std::string network = {};       // equal: one loopback is theirs, as they share the namespace
  std::int64_t pid = 0;           // as seen by itself
  std::string local_socket = {};  // where it listens as a leader
  std::string nonce = {};         // this start of it
  // Where its host is, best first: for people who look for it. Connections go by what is told
  // later.
  std::vector<std::string> addresses = {};

  bool operator==(const Member&) const = default;
};

std::string encode(const Member& member);
// kConflict when it was written by another version, kCorrupt otherwise.
Result<Member> decode_member(std::string_view text);

// What it is called by those who share it, and by people. Ranks of one kernel share a host when
// they share the network namespace, or a folder for sockets (`socket_folder`, may be empty).
struct Machine {
  std::string host_key;
  std::string network;
  std::string host_name;
};
Result<Machine> read_this_machine(const std::string& socket_folder);

// Hosts are numbered in the order of their lowest ranks, which lead them.
struct Hosts {
  std::vector<std::int32_t> of_rank;             // number of the host, by rank
  std::vector<std::vector<std::int32_t>> ranks;  // ascending, by host

  std::int32_t leader_of(std::int32_t rank) const {
    return ranks[static_cast<std::size_t>(of_rank[static_cast<std::size_t>(rank)])].front();
  }
};
Hosts group(const std::vector<Member>& members);

// As many as a segment has parts for (transport/shm/segment.h).
inline constexpr std::size_t kMaxLocalRanks = 256;
// kInvalidArgument names the host that has more, on every rank alike.
Result<void> check_hosts(const Hosts& hosts, const std::vector<Member>& members);

// "rank 3 (pid 812 on algo-2)".
std::string describe(const Member& member);
// "rank 3 (pid 812 on algo-2, 10.0.0.5)".
std::string describe_with_addresses(const Member& member);
// "1, 2 and 5".
std::string list_ranks(const std::vector<std::int32_t>& ranks);

}  // namespace trainyard::comm
