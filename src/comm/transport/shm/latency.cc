// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/shm/latency.h"

#include <algorithm>

#include "comm/transport/shm/pause.h"

namespace trainyard::comm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::nanoseconds;

constexpr std::int64_t kExchanges = 8;  // between two looks at the clock
constexpr std::int64_t kGroups = 4;     // the quickest counts: no interrupt came between
constexpr std::chrono::milliseconds kEvery{250};

// What rank 0 writes to `ping` is the round's number times kRound, and one of these.
constexpr std::uint64_t kFirstPing = 1;
constexpr std::uint64_t kFirstCached = kFirstPing + std::uint64_t{kExchanges * kGroups};
constexpr std::uint64_t kLargeTransfers = 4;  // of the whole buffer; the first of each is not timed
constexpr std::uint64_t kSmallTransfers = 8;  // each of another part of it
constexpr std::uint64_t kTransfers = kLargeTransfers + kSmallTransfers;
constexpr std::uint64_t kFirstStreamed = kFirstCached + kTransfers;
constexpr std::uint64_t kEnd = kFirstStreamed + kTransfers;
constexpr std::uint64_t kRound = 64;
static_assert(kEnd < kRound);

// What ping `number` says of the buffer.
struct Part {
  std::size_t offset;
  std::size_t bytes;
};

// The small ones come after the large ones, to memory that both cores had in their caches, as the
// places of messages are; less than half of it, so that nothing of it is in the first-level cache.
Part part_of_trial(std::uint64_t number, std::size_t bytes) {
  constexpr std::size_t kSmall = 4 << 10;
  const std::uint64_t i = (number - kFirstCached) % kTransfers;
  return i < kLargeTransfers
             ? Part{0, bytes}
             : Part{std::min((i - kLargeTransfers) * kSmall, bytes - kSmall), kSmall};
}

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

// Written by one core and read by the other, as a message is. The quickest of each size.
std::optional<LatencyProbe::Times> LatencyProbe::measure_store(Store store, std::uint64_t first) {
  Times best;
  for (std::uint64_t i = 0; i < kTransfers; ++i) {
    const Part part = part_of_trial(first + i, buffer_.size());
    const Clock::time_point start = Clock::now();
    copy(buffer_.data() + part.offset, own_.data(), part.bytes, store);
    if (!ping(first + i)) {
      return std::nullopt;
    }
    nanoseconds& time = i < kLargeTransfers ? best.large : best.small;
    if (i != 0 && i != kLargeTransfers) {
      time = std::min<nanoseconds>(time, Clock::now() - start);
    }
  }
  return best;
}

bool LatencyProbe::try_stores() {
  own_.resize(buffer_.size());
  const std::optional<Times> cached = measure_store(Store::kCached, kFirstCached);
  const std::optional<Times> streamed = measure_store(Store::kNonTemporal, kFirstStreamed);
  if (!cached || !streamed) {
    return false;
  }
  // Cached stores leave the reader's line in a cache for whoever reads it next: a draw is theirs.
  const auto is_better = [](nanoseconds one, nanoseconds other) { return one < other * 9 / 10; };
  lines_.is_streaming_better.value.store(
      kTried | (is_better(streamed->small, cached->small) ? kSmallStream : 0) |
          (is_better(streamed->large, cached->large) ? kLargeStream : 0),
      std::memory_order_relaxed);
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
      const Part part = part_of_trial(number, buffer_.size());
      copy(own_.data(), buffer_.data() + part.offset, part.bytes, Store::kCached);
    }
    lines_.pong.value.store(seen, std::memory_order_release);
  }
  lines_.accepted.value.store(0, std::memory_order_release);
}

void LatencyProbe::measure_now(microseconds limit, const std::function<bool()>& is_over) {
  const Clock::time_point end = Clock::now() + limit;
  next_ = {};
  while (role_ != Role::kNone && !is_measured() && !is_over()) {
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
