// SPDX-License-Identifier: Apache-2.0
// How far the cores of local ranks 0 and 1 are from each other: the one-way latency, by a short
// ping-pong, and the store instruction by which 4 KiB and 64 KiB get across sooner. Both change
// without notice on shared machines, so they are measured at start and again now and then. Rank 0
// invites; rank 1 accepts while it waits for something and answers for a moment; rank 0, at its
// next call, sees that and measures: some ten microseconds, not more often than every quarter of a
// second, and a hundred when the latency has become another one. Owned by the transport's thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "comm/combine/combine.h"
#include "comm/transport/shm/segment.h"

namespace trainyard::comm {

class LatencyProbe {
 public:
  enum class Role : std::uint8_t { kMeasures, kAnswers, kNone };

  // kNone only reads what the others measured. `buffer` is the segment's, for the trial of stores.
  // `patience` is how long a rank that measures or answers lets the other one keep it waiting, at
  // worst because its core was taken from it.
  LatencyProbe(ProbeLines& lines, std::span<std::byte> buffer, Role role,
               std::chrono::microseconds patience = std::chrono::microseconds(200))
      : lines_(lines), buffer_(buffer), role_(role), patience_(patience) {}

  // One way, or 0 when it was never measured.
  std::chrono::nanoseconds one_way() const {
    return std::chrono::nanoseconds(lines_.one_way_ns.value.load(std::memory_order_relaxed));
  }
  // For messages of so many bytes. kCached until it was tried.
  Store better_store(std::size_t bytes) const {
    const std::uint64_t streams = bytes < kLarge ? kSmallStream : kLargeStream;
    return (answer_to_trial() & streams) != 0 ? Store::kNonTemporal : Store::kCached;
  }

  // To be called now and then while waiting: costs a look at one line.
  void while_waiting(std::chrono::steady_clock::time_point now) {
    if (role_ == Role::kMeasures && now >= next_) {
      invite(now);
    }
    if (role_ == Role::kAnswers && is_invited()) {
      answer();
    }
    while_busy();
  }
  // To be called often by rank 0, whose peer waits for it now.
  void while_busy() {
    if (role_ == Role::kMeasures && is_accepted()) {
      measure();
    }
  }

  // At start: both ranks call it; returns when both results are there, or after `limit`, or when
  // `is_over` says so.
  void measure_now(std::chrono::microseconds limit, const std::function<bool()>& is_over);

 private:
  static constexpr std::size_t kLarge = 32 << 10;  // between the two sizes of the trial
  // Bits of the line `is_streaming_better`; 0: not tried yet.
  static constexpr std::uint64_t kTried = 1;
  static constexpr std::uint64_t kSmallStream = 2;
  static constexpr std::uint64_t kLargeStream = 4;

  std::uint64_t answer_to_trial() const {
    return lines_.is_streaming_better.value.load(std::memory_order_relaxed);
  }
  bool is_measured() const {
    return one_way() != std::chrono::nanoseconds(0) && answer_to_trial() != 0;
  }
  bool is_accepted() const {
    return round_ != done_ && lines_.accepted.value.load(std::memory_order_acquire) == round_;
  }
  bool is_invited() const { return lines_.invited.value.load(std::memory_order_acquire) != round_; }
  void invite(std::chrono::steady_clock::time_point now);
  void measure();
  void answer();
  // False when the answer did not come.
  bool ping(std::uint64_t number);
  std::optional<std::chrono::nanoseconds> measure_latency();
  struct Times {
    std::chrono::nanoseconds large = std::chrono::nanoseconds::max();
    std::chrono::nanoseconds small = std::chrono::nanoseconds::max();
  };
  std::optional<Times> measure_store(Store store, std::uint64_t first);
  bool try_stores();
  // The line's value once it is another one than `old`.
  std::optional<std::uint64_t> wait_for_change(const ProbeLines::Line& line,
                                               std::uint64_t old) const;

  ProbeLines& lines_;
  std::span<std::byte> buffer_;
  Role role_;
  std::chrono::microseconds patience_;
  std::uint64_t round_ = 0;  // invited (rank 0), answered (rank 1)
  std::uint64_t done_ = 0;   // measured or given up
  std::chrono::steady_clock::time_point next_ = {};
  std::chrono::nanoseconds tried_at_{0};  // the latency at the last trial of stores
  std::vector<std::byte> own_;            // what the trial copies from or to
};

}  // namespace trainyard::comm
