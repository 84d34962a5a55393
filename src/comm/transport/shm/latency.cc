// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/shm/latency.h"

#include <algorithm>
#include <optional>

#include "comm/transport/shm/pause.h"

namespace trainyard::comm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::nanoseconds;

constexpr std::uint64_t kExchanges = 8;  // between two looks at the clock
constexpr std::uint64_t kGroups = 4;     // the quickest counts: no interrupt came between
constexpr std::uint64_t kPings = kExchanges * kGroups;
constexpr std::chrono::milliseconds kEvery{250};

}  // namespace

bool LatencyProbe::wait_for(const std::atomic<std::uint64_t>& line, std::uint64_t value) const {
  // The clock costs as much as what is measured: it is asked only when the answer takes long.
  std::optional<Clock::time_point> give_up;
  for (int looks = 0; line.load(std::memory_order_acquire) != value; ++looks) {
    if (looks % 16 == 15) {
      const Clock::time_point now = Clock::now();
      give_up = give_up.value_or(now + patience_);
      if (now >= *give_up) {
        return false;
      }
    }
    pause();
  }
  return true;
}

void LatencyProbe::invite(Clock::time_point now) {
  next_ = now + kEvery;
  lines_.invited.value.store(++round_, std::memory_order_release);
}

void LatencyProbe::measure() {
  done_ = round_;
  nanoseconds best = nanoseconds::max();
  std::uint64_t ping = round_ * kPings;
  for (std::uint64_t group = 0; group < kGroups; ++group) {
    const Clock::time_point start = Clock::now();
    for (std::uint64_t i = 0; i < kExchanges; ++i) {
      lines_.ping.value.store(++ping, std::memory_order_release);
      if (!wait_for(lines_.pong.value, ping)) {
        return;
      }
    }
    best = std::min<nanoseconds>(best, Clock::now() - start);
  }
  const std::int64_t one_way = best.count() / static_cast<std::int64_t>(2 * kExchanges);
  lines_.one_way_ns.value.store(static_cast<std::uint64_t>(std::max<std::int64_t>(one_way, 1)),
                                std::memory_order_relaxed);
}

void LatencyProbe::answer() {
  round_ = lines_.invited.value.load(std::memory_order_acquire);
  lines_.accepted.value.store(round_, std::memory_order_release);
  for (std::uint64_t ping = round_ * kPings + 1; ping <= (round_ + 1) * kPings; ++ping) {
    if (!wait_for(lines_.ping.value, ping)) {
      break;
    }
    lines_.pong.value.store(ping, std::memory_order_release);
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
