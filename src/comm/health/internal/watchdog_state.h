// SPDX-License-Identifier: Apache-2.0
// What the watchdog's thread has and does: watchdog.cc has its loop, faults and progress,
// watchdog_buffers.cc the buffers of `allocate` that it hands round.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "comm/health/watchdog.h"
#include "comm/rendezvous/sockets.h"

namespace trainyard::comm {

struct Watchdog::State {
  using HeapName = std::pair<std::int32_t, std::uint64_t>;  // owner, id

  // What callers ask the thread to send.
  struct Share {
    std::uint64_t id = 0;
    std::uint64_t bytes = 0;
    Fd fd;
    bool is_end = false;
  };

  WatchdogParts parts;
  Fault& fault;
  Fd wake;
  bool is_leader = false;
  bool up_has_left = false;

  Mutex mutex;
  ConditionVariable changed;
  std::deque<Share> shares GUARDED_BY(mutex);
  std::set<std::uint64_t> mapped GUARDED_BY(mutex);  // own buffers that all have
  bool has_no_leader GUARDED_BY(mutex) = false;      // it has left
  bool has_spread GUARDED_BY(mutex) = false;
  std::atomic<bool> is_running = false;
  std::atomic<std::thread::id> runner;
  std::atomic<bool> is_leaving = false;
  std::atomic<bool> must_spread = false;

  // The rest is the thread's own.
  std::map<std::int32_t, RankProgress> remote;          // of other hosts, as told (rank 0)
  std::map<std::int32_t, SilenceWatch> silence;         // of other hosts
  std::map<std::int32_t, std::string> told;             // to rank 0, of this host's ranks
  std::map<HeapName, std::set<std::int32_t>> unmapped;  // leader: who has not mapped it yet
  std::chrono::steady_clock::time_point next_beat = std::chrono::steady_clock::now();
  std::optional<std::chrono::steady_clock::time_point> left_at;
  std::optional<std::chrono::steady_clock::time_point> closing_at;
  std::jthread thread;

  State(WatchdogParts given, Fault& raised) : parts(std::move(given)), fault(raised) {}

  void run();
  void poll_once();
  void read_what_came_before();
  void check_silence();
  void read(std::int32_t peer, ControlLink& link, bool* is_over);
  std::int32_t above() const { return is_leader ? 0 : parts.hosts.leader_of(parts.rank); }
  void handle(std::int32_t peer, ControlMessage& message);
  void lost(std::int32_t peer, const Error& error);
  void close_up();
  void beat();
  void look_at_boards();
  void judge();
  void send_fault();
  void send_shares();
  static HeapName heap_in(const Fields& fields);
  void take_heap(std::int32_t peer, ControlMessage& message);
  void take_mapped(std::int32_t peer, const HeapName& heap);
  void forward_unmap(std::int32_t peer, const HeapName& heap);
  void forget_mapper(std::int32_t peer);
  void say_goodbye();
  void tell_who_has_left();
  bool may_end();
  void raise(const Error& error) { fault.raise(error); }
  const Member& member(std::int32_t rank) const {
    return parts.members[static_cast<std::size_t>(rank)];
  }
  bool is_local(std::int32_t rank) const {
    return parts.hosts.of_rank[static_cast<std::size_t>(rank)] ==
           parts.hosts.of_rank[static_cast<std::size_t>(parts.rank)];
  }
  const std::vector<std::int32_t>& local_ranks() const {
    return parts.hosts
        .ranks[static_cast<std::size_t>(parts.hosts.of_rank[static_cast<std::size_t>(parts.rank)])];
  }
};

}  // namespace trainyard::comm
