// SPDX-License-Identifier: Apache-2.0
// Watches the other ranks of a communicator, one thread a rank. Control connections form a tree of
// two floors: ranks to the leader of their host, leaders to rank 0. A closed connection is a death;
// a host that acknowledges nothing for kSilence (rendezvous/sockets.h) is gone, which a look
// twice a second finds within 5 s of the cut. A process that is merely stopped still acknowledges,
// and is left to the time-out of the operation. At each look progress travels upwards, too, and
// whoever sees ranks that disagree, or that wait for one that left, raises the fault. A fault goes
// once over every connection, before those who wait for an operation get it; the ranks of a host
// also see it on each other's boards, and who has no leader any more judges by these. It also takes
// buffers of `allocate` to the ranks of the host.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "comm/health/facts.h"
#include "comm/health/fault.h"
#include "comm/rendezvous/control_link.h"
#include "comm/rendezvous/member.h"

namespace trainyard::comm {

inline constexpr std::chrono::milliseconds kBeat{500};
inline constexpr std::chrono::milliseconds kLinger{5000};  // of a leader that leaves first
inline constexpr std::chrono::milliseconds kSpread{1000};  // of a thread that passes a fault on

struct WatchdogParts {
  std::int32_t rank = 0;
  std::vector<Member> members;
  Hosts hosts;
  std::unique_ptr<ControlLink> up;  // to the leader; of a leader, to rank 0; null for rank 0
  std::map<std::int32_t, std::unique_ptr<ControlLink>> down;  // by rank
  std::chrono::milliseconds linger = kLinger;
  // Called on the watchdog's thread.
  std::function<RankProgress(std::int32_t rank)> progress_of;       // ranks of this host
  std::function<std::optional<Error>(std::int32_t rank)> fault_of;  // as they have shown it
  std::function<Result<void>(std::int32_t owner, std::uint64_t id, std::uint64_t bytes, Fd fd)> map;
  std::function<void(std::int32_t owner, std::uint64_t id)> unmap;
  // To the ranks of this host. Called on the thread that raises the fault.
  std::function<void(const Error& fault)> show;
};

class Watchdog {
 public:
  // `fault` must outlive it. Who raises faults elsewhere calls spread().
  Watchdog(WatchdogParts parts, Fault& fault);
  ~Watchdog();  // leaves

  void start();
  // Tells that this rank leaves, and ends the thread. A leader stays, up to kLinger, for those who
  // have not left.
  void leave();
  // Passes on the fault that was raised. From any thread; returns when the connections have it, or
  // after kSpread.
  void spread();

  // Returns when all ranks of this host have mapped the buffer; with the fault's error after one,
  // kDeadline when that takes longer than `time`.
  Result<void> share(std::uint64_t id, std::uint64_t bytes, int fd, std::chrono::milliseconds time);
  void unshare(std::uint64_t id);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trainyard::comm
