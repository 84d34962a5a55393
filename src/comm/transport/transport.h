// SPDX-License-Identifier: Apache-2.0
// How bytes travel between the ranks of one communicator: ordered messages between each pair, no
// more. Implementations: shm/ (ranks on one host), tcp/ (any), fabric/ (libfabric). router.h joins
// them, by peer. One thread at a time uses a Transport: the one that runs an operation.
//
// Nothing blocks here. The executor asks again after `wait()`, which it calls with its patience;
// faults of a peer do not show here but in the Fault of the communicator (health/fault.h), which
// every wait looks at.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "comm/types.h"

namespace trainyard::comm {

// What a message belongs to. The receiver compares it with what it expects: a difference means that
// the ranks disagree, and nothing of the payload has been used then.
struct Label {
  std::uint64_t sequence = 0;  // of the operation in its communicator, from 1
  Signature signature;

  bool operator==(const Label&) const = default;
};

struct Inbound {
  Label label;
  std::span<const std::byte> bytes;  // valid until release()
};

using Ticket = std::uint64_t;  // of send_in_place(), per transport; grows

struct Window {
  std::uint64_t heap = 0;  // 0: none
  std::uint64_t offset = 0;
};

// How long a thread that has nothing to do looks before it sleeps.
enum class Patience : std::uint8_t {
  kSpin,   // the caller of a blocking operation: looks, yields, sleeps at last
  kSleep,  // a helper thread: sleeps at once, so that it takes no core from the computation
};

class Transport {
 public:
  virtual ~Transport() = default;

  // The longest payload of a message.
  virtual std::size_t max_message() const = 0;
  // How much this rank can have under way at least, published and not yet released by all its
  // receivers: messages of any sizes up to max_message(), each counted with kMessageCost more, and
  // at most four times as many to one peer as there are ranks. The executor cuts its pieces so
  // small that what a schedule has under way fits, because ranks that all wait for room would wait
  // forever.
  static constexpr std::size_t kMessageCost = 128;
  virtual std::size_t room() const { return 4 * (max_message() + kMessageCost); }

  // Memory to write one message for all of `peers` into: exactly `bytes`, at most max_message().
  // Empty data() when there is no room yet (also for 0 bytes non-null when there is). publish()
  // sends what was reserved last; the labels reach each peer in the order of publish and
  // send_in_place.
  virtual std::span<std::byte> try_reserve(std::span<const std::int32_t> peers,
                                           std::size_t bytes) = 0;
  virtual void publish(std::span<const std::int32_t> peers, const Label& label) = 0;
  // The same with what lets the peers go on, and no more: one that has left does not miss it, and
  // that it cannot be sent is no fault.
  virtual void publish_unneeded(std::span<const std::int32_t> peers, const Label& label) {
    publish(peers, label);
  }

  // Whether sending from `bytes` where they lie saves a copy: TCP, and memory that the peers map.
  virtual bool can_send_in_place(std::span<const std::int32_t> peers,
                                 std::span<const std::byte> bytes) const = 0;
  // False when there is no room yet. `bytes` must stay unchanged until is_sent(*ticket).
  virtual bool try_send_in_place(std::span<const std::int32_t> peers, const Label& label,
                                 std::span<const std::byte> bytes, Ticket* ticket) = 0;
  virtual bool is_sent(Ticket ticket) = 0;

  // The oldest message of `peer` that was not released, or null. `into`, when given, is where the
  // caller will copy the payload: a transport that can puts it there itself, and then bytes.data()
  // == into.data().
  virtual const Inbound* try_receive(std::int32_t peer, std::span<std::byte> into) = 0;
  // The same of a peer from which nothing has to come: that it is out of reach is no fault.
  virtual const Inbound* try_receive_unneeded(std::int32_t peer) { return try_receive(peer, {}); }
  virtual void release(std::int32_t peer) = 0;

  // Moves what can be moved, then waits until something may have changed, at most for `limit`.
  virtual void wait(Patience patience, std::chrono::microseconds limit) = 0;
  // From any thread: ends the wait() that is in progress, or else the next one.
  virtual void wake() {}
  // Sends out what is still on its way without waiting for it; true when all has left.
  virtual bool flush() = 0;

  // Where `bytes` lie in memory that all ranks map (Communicator::allocate), or {}; and the same
  // bytes of `peer` in this process. For schedules with windows; ranks tell each other their
  // windows in messages.
  virtual Window window_of(std::span<const std::byte> bytes) const = 0;
  virtual std::byte* map(std::int32_t peer, Window window) = 0;
  // What map() gave is used no more; until then it stays mapped.
  virtual void unmap() {}

  // Whether this rank can read the memory of all others wherever it lies, through the kernel, and
  // then such a copy: kUnavailable when not all of it could be read, because the peer ended or gave
  // the memory back. Nobody writes to such memory: a rank that had stopped for a while would write
  // to what its owner, who has given the operation up, uses for something else.
  virtual bool reaches_all_memory() { return false; }
  // Whether the kernel can read these bytes of this rank's own for others: not those of a device.
  virtual bool is_readable(std::span<const std::byte> /*bytes*/) { return false; }
  virtual Result<void> fetch(std::int32_t /*peer*/, std::uint64_t /*address*/,
                             std::span<std::byte> /*into*/) {
    return Error{Code::kUnimplemented, "this transport reaches no memory"};
  }

  // This rank's operations end with an error, and their buffers are their callers' again: said
  // before that is so, when the Fault is raised; from any thread. What a peer that has said it let
  // others read since then counts for nothing. In memory that all ranks map, peers find what was
  // there, and what they write there is lost.
  virtual void give_up() {}
  virtual bool has_given_up(std::int32_t /*peer*/) { return false; }

  // The store instruction that suits messages of this size, measured.
  virtual bool prefers_non_temporal(std::size_t bytes) const = 0;
};

}  // namespace trainyard::comm
