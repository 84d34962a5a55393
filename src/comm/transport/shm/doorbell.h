// SPDX-License-Identifier: Apache-2.0
// How a rank sleeps until another one has something for it, and how the others wake it without
// paying for it while nobody sleeps. A futex word in the segment, not private to a process, so that
// it works between namespaces.
//
// The danger is a lost wake-up: the sleeper looks, finds nothing and sleeps; the waker publishes,
// finds no sleeper and goes on. It is excluded when each side writes first and looks second, in an
// order that both see:
//
// | waker                                  | sleeper                                        |
// |----------------------------------------|------------------------------------------------|
// | W1 store the news (turn, consumed)     | S1 read `rings`                                |
// | W2 light barrier                       | S2 store `waits` = what it waits for           |
// | W3 load `waits`; 0: done               | S3 heavy barrier                               |
// | W4 exchange `waits` with 0; 0: done    | S4 look for news; found: `waits` = 0, done     |
// | W5 increment `rings`, futex wake       | S5 futex wait while `rings` is as read, or time|
//
// W1 before W3 and S2 before S4 in one total order: then W3 sees S2, or S4 sees W1. The usual price
// is a full fence in W2 for every message. Here it is asymmetric: W2 only keeps the compiler from
// reordering, and S3 makes the kernel run a fence on every processor that runs one of the ranks
// (membarrier, "global expedited"), which costs the sleeper, who has time, about a microsecond. So
// a waker's W1 and W3 lie both before that fence (S4 sees W1), or W3 after it (W3 sees S2). Where a
// rank cannot register for it, all ranks fence on both sides instead: `fences`, decided before the
// first message. W5 after S1 changes the word, so S5 does not sleep; W4 lets one of several wakers
// make the call. A waker killed between W4 and W5 leaves a sleeper to its time limit; its death is
// a fault, whose finder rings everybody. doorbell_test.cc runs all interleavings of this table,
// with store buffers.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "comm/transport/shm/fence.h"

namespace trainyard::comm {

struct alignas(64) Doorbell {
  enum Wait : std::uint32_t { kMessage = 1, kRoom = 2 };

  std::atomic<std::uint32_t> rings = 0;  // the futex word
  std::atomic<std::uint32_t> waits = 0;  // bits of Wait while its owner sleeps

  // W5 whether or not its owner sleeps: for faults, from any thread of any process.
  void ring();

  // W2 to W5, after W1. `news` are the bits of Wait that it may end.
  void ring_sleeper(std::uint32_t news, bool fences) {
    if (fences) {
      fence(std::memory_order_seq_cst);
    } else {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    if ((waits.load(std::memory_order_relaxed) & news) != 0) {
      wake();
    }
  }

  // S1 to S5. `has_news` is asked once. Returns for news, a ring, or at the latest after `limit`;
  // also now and then without a reason.
  template <typename HasNews>
  void sleep(std::uint32_t reasons, bool fences, std::chrono::microseconds limit,
             const HasNews& has_news) {
    const std::uint32_t before = rings.load(std::memory_order_acquire);
    waits.store(reasons, std::memory_order_relaxed);
    heavy_barrier(fences);
    if (!has_news()) {
      wait_for_ring(before, limit);
    }
    waits.store(0, std::memory_order_relaxed);
  }

 private:
  void wake();
  static void heavy_barrier(bool fences);
  void wait_for_ring(std::uint32_t before, std::chrono::microseconds limit);
};
static_assert(sizeof(Doorbell) == 64);

// True when this process takes part in the asymmetric barrier; to be asked once per process before
// its first message. Otherwise `fences` must be true on all ranks.
bool register_for_light_barriers();

}  // namespace trainyard::comm
