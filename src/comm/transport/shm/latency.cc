// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/shm/latency.h"

#include <algorithm>

#include "comm/transport/shm/pause.h"

namespace trainyard::comm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::nanoseconds;

constexpr std::int64_t kExchanges = 8;   // between two looks at the clock
constexpr std::int64_t kGroups = 4;      // the quickest counts: no interrupt came between
constexpr std::uint64_t kTransfers = 4;  // by each store; the first one is not timed
constexpr std::chrono::milliseconds kEvery{250};

// What rank 0 writes to `ping` is the round's number times kRound, and one of these.
constexpr std::uint64_t kFirstPing = 1;
constexpr std::uint64_t kFirstCached = kFirstPing + std::uint64_t{kExchanges * kGroups};
constexpr std::uint64_t kFirstStreamed = kFirstCached + kTransfers;
constexpr std::uint64_t kEnd = kFirstStreamed + kTransfers;
constexpr std::uint64_t kRound = 64;
static_assert(kEnd < kRound);

}  // namespace

std::optional<std::uint64_t> LatencyProbe::wait_for_change(const ProbeLines::Line& line,
                                                           std::uint64_t old) const {
  // The clock costs as much as what is measured: it is asked only when the answer takes long.
  std::optional<Clock::time_point> give_up;
  for (int looks = 0;; ++looks) {
    if (const std::uint64_t value = line.value.load(std::memory_order_acquire); value != old) {
      return value;
    }
    if (looks % 16 == 15) {
      const Clock::time_point now = Clock::now();
      give_up = give_up.value_or(now + patience_);
      if (now >= *give_up) {
        return std::nullopt;
      }
    }
    pause();
  }
}

void LatencyProbe::invite(Clock::time_point now) {
  next_ = now + kEvery;
  lines_.invited.value.store(++round_, std::memory_order_release);
}

bool LatencyProbe::ping(std::uint64_t number) {
  const std::uint64_t before = lines_.pong.value.load(std::memory_order_relaxed);
  const std::uint64_t value = round_ * kRound + number;
  lines_.ping.value.store(value, std::memory_order_release);
  return wait_for_change(lines_.pong, before) == value;
}

void LatencyProbe::measure() {
  done_ = round_;
  if (const std::optional<nanoseconds> latency = measure_latency()) {
    const bool is_another = *latency > tried_at_ * 3 / 2 || *latency < tried_at_ * 2 / 3;
    if (is_another && try_stores()) {
      tried_at_ = *latency;
    }
    lines_.one_way_ns.value.store(static_cast<std::uint64_t>(latency->count()),
                                  std::memory_order_relaxed);
  }
  lines_.ping.value.store(round_ * kRound + kEnd, std::memory_order_release);
}

std::optional<nanoseconds> LatencyProbe::measure_latency() {
  nanoseconds best = nanoseconds::max();
  std::uint64_t number = kFirstPing;
  for (std::int64_t group = 0; group < kGroups; ++group) {
    const Clock::time_point start = Clock::now();
    for (std::int64_t i = 0; i < kExchanges; ++i) {
      if (!ping(number++)) {
        return std::nullopt;
      }
    }
    best = std::min<nanoseconds>(best, Clock::now() - start);
  }
  return std::max(best / (2 * kExchanges), nanoseconds(1));
}

// Written by one core and read by the other, as a message is.
std::optional<nanoseconds> LatencyProbe::measure_store(Store store, std::uint64_t first) {
  nanoseconds best = nanoseconds::max();
  for (std::uint64_t i = 0; i < kTransfers; ++i) {
    const Clock::time_point start = Clock::now();
    copy(buffer_.data(), own_.data(), own_.size(), store);
    if (!ping(first + i)) {
      return std::nullopt;
    }
    best = i > 0 ? std::min<nanoseconds>(best, Clock::now() - start) : best;
  }
  return best;
}

bool LatencyProbe::try_stores() {
  own_.resize(buffer_.size());
  const std::optional<nanoseconds> cached = measure_store(Store::kCached, kFirstCached);
  const std::optional<nanoseconds> streamed = measure_store(Store::kNonTemporal, kFirstStreamed);
  if (!cached || !streamed) {
    return false;
  }
  // Cached stores leave the reader's line in a cache for whoever reads it next: a draw is theirs.
  const bool is_better = *streamed < *cached * 9 / 10;
  lines_.is_streaming_better.value.store(is_better ? 1 : 0, std::memory_order_relaxed);
  return true;
}

void LatencyProbe::answer() {
  own_.resize(buffer_.size());
  std::uint64_t seen = lines_.ping.value.load(std::memory_order_relaxed);
  round_ = lines_.invited.value.load(std::memory_order_acquire);
  lines_.accepted.value.store(round_, std::memory_order_release);
  while (const std::optional<std::uint64_t> got = wait_for_change(lines_.ping, seen)) {
    seen = *got;
    const std::uint64_t number = seen - round_ * kRound;
    if (number >= kEnd) {  // or of another round
      break;
    }
    if (number >= kFirstCached) {
      copy(own_.data(), buffer_.data(), own_.size(), Store::kCached);
    }
    lines_.pong.value.store(seen, std::memory_order_release);
  }
  lines_.accepted.value.store(0, std::memory_order_release);
}

void LatencyProbe::measure_now(microseconds limit, const std::function<bool()>& is_over) {
  const Clock::time_point end = Clock::now() + limit;
  next_ = {};
  while (role_ != Role::kNone && one_way() == nanoseconds(0) && !is_over()) {
    const Clock::time_point now = Clock::now();
    if (now >= end) {
      return;
    }
    while_waiting(now);
    next_ = std::min(next_, now + 2 * patience_);  // soon again, if this try fails
    pause();
  }
}

}  // namespace trainyard::comm
