// SPDX-License-Identifier: Apache-2.0
// What a rank shows of itself to the other ranks of its host, in the segment: how far it is, which
// operations it issued last, whether it left, and its fault. Written by its owner, read by anyone
// at any time, without locks: the health part looks here and sees disagreements before any message
// shows them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "comm/health/shown_fault.h"
#include "comm/transport/shm/peer_memory.h"
#include "comm/types.h"

namespace trainyard::comm {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "shared between processes");
static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "shared between processes");

class Board {
 public:
  static constexpr std::size_t kKeptOperations = 64;
  static constexpr std::size_t kMaxCpus = 1024;
  // kGaveUp: an operation has ended with an error, and its buffers are no longer what they were.
  enum Flag : std::uint32_t { kAttached = 1, kLeft = 2, kGaveUp = 4 };

  void raise(Flag flag) { flags_.fetch_or(flag, std::memory_order_acq_rel); }
  bool has(Flag flag) const { return (flags_.load(std::memory_order_acquire) & flag) != 0; }

  // By one thread of the owner, sequence numbers ascending from 1.
  void note_issued(std::uint64_t sequence, const Signature& signature);
  void note_started(std::uint64_t sequence) { started_.store(sequence, std::memory_order_release); }
  void note_completed(std::uint64_t sequence) {
    completed_.store(sequence, std::memory_order_release);
  }
  std::uint64_t issued() const { return issued_.load(std::memory_order_acquire); }
  std::uint64_t started() const { return started_.load(std::memory_order_acquire); }
  std::uint64_t completed() const { return completed_.load(std::memory_order_acquire); }
  // Of one of the last kKeptOperations issued; empty when it is older, newer or being written.
  std::optional<Signature> signature_of(std::uint64_t sequence) const;

  // The processors that the owner may run on, for the choice between spinning and yielding.
  using Cpus = std::array<std::uint64_t, kMaxCpus / 64>;
  void set_cpus(const Cpus& cpus);
  Cpus cpus() const;

  // How others reach the owner's memory. Set before kAttached is raised.
  void set_memory(const MemoryCard& card);
  MemoryCard memory() const;

  ShownFault& fault() { return fault_; }
  const ShownFault& fault() const { return fault_; }

 private:
  struct Kept {
    std::atomic<std::uint64_t> sequence = 0;  // 0 while the words change
    std::array<std::atomic<std::uint64_t>, 2> words = {};
  };

  std::atomic<std::uint64_t> issued_ = 0;
  std::atomic<std::uint64_t> started_ = 0;
  std::atomic<std::uint64_t> completed_ = 0;
  std::atomic<std::uint32_t> flags_ = 0;
  std::array<std::atomic<std::uint64_t>, kMaxCpus / 64> cpus_ = {};
  std::array<std::atomic<std::uint64_t>, sizeof(MemoryCard) / 8> memory_ = {};
  std::array<Kept, kKeptOperations> kept_ = {};
  ShownFault fault_;
};

}  // namespace trainyard::comm
