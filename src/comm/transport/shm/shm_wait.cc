// SPDX-License-Identifier: Apache-2.0
// How a ShmTransport waits. A caller that spins looks for a while without giving its core away,
// then gives it away between looks, then sleeps; at once the second when cores are shared, since
// looking would keep the awaited rank from running.
#include <utility>

#include <sched.h>

#include "comm/transport/shm/cores.h"
#include "comm/transport/shm/pause.h"
#include "comm/transport/shm/shm_transport.h"

namespace trainyard::comm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr int kLooks = 16;               // between two looks at the clock
constexpr microseconds kLooking{200};    // with the core
constexpr microseconds kYielding{2000};  // and without, all together
// A gap this long between two looks at the clock: somebody else had the core. Then it is shared for
// the next while, whoever that is.
constexpr microseconds kGap{500};
constexpr std::chrono::milliseconds kCrowded{100};

microseconds microseconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration_cast<microseconds>(to - from);
}

}  // namespace

void ShmTransport::watch(std::uint32_t index) {
  if (!peers_[index].is_watched) {
    peers_[index].is_watched = true;
    watched_.push_back(index);
  }
}

bool ShmTransport::has_news() {
  if (is_woken_.load(std::memory_order_relaxed) || fault_.is_raised()) {
    return true;
  }
  for (const std::uint32_t index : watched_) {
    if (peers_[index].in.front() != nullptr) {
      return true;
    }
  }
  if (wants_room_) {
    for (Peer& peer : peers_) {
      if (peer.out.has_news()) {
        return true;
      }
    }
  }
  return false;
}

void ShmTransport::wait(Patience patience, microseconds limit) {
  if (!has_news() && limit.count() > 0) {
    if (patience == Patience::kSpin) {
      look(limit);
    } else {
      if (!shares_cores()) {
        probe_.while_waiting(Clock::now());
      }
      sleep(limit);
    }
  }
  if (is_woken_.load(std::memory_order_relaxed)) {
    is_woken_.exchange(false, std::memory_order_acquire);
  }
  for (const std::uint32_t index : watched_) {
    peers_[index].is_watched = false;
  }
  watched_.clear();
  wants_room_ = false;
}

template <typename Rest>
bool ShmTransport::look_often(int looks, const Rest& rest) {
  for (int look = 0; look < looks; ++look) {
    if (has_news()) {
      return true;
    }
    rest();
  }
  return false;
}

void ShmTransport::look(microseconds limit) {
  const bool is_alone = !shares_cores();
  if (is_alone && !crowded_until_ && look_often(kLooks, pause)) {
    return;
  }
  const Clock::time_point start = Clock::now();
  Clock::time_point now = start;
  for (microseconds waited(0); waited < limit; waited = microseconds_between(start, now)) {
    if (waited >= kYielding) {
      sleep(limit - waited);
      return;
    }
    const bool yields = !is_alone || waited >= kLooking || is_crowded(now);
    if (yields ? look_often(kLooks, sched_yield) : look_often(kLooks, pause)) {
      return;
    }
    const Clock::time_point before = std::exchange(now, Clock::now());
    if (!yields && now - before >= kGap) {
      crowded_until_ = now + kCrowded;
    }
    if (is_alone) {
      probe_.while_waiting(now);
    }
  }
}

bool ShmTransport::is_crowded(Clock::time_point now) {
  if (crowded_until_ && now >= *crowded_until_) {
    crowded_until_.reset();
  }
  return crowded_until_.has_value();
}

void ShmTransport::sleep(microseconds limit) {
  std::uint32_t reasons = Doorbell::kMessage;
  if (wants_room_) {
    reasons |= Doorbell::kRoom;
  }
  segment_->bell(options_.index).sleep(reasons, segment_->has_fences(), limit, [&] {
    return has_news();
  });
}

void ShmTransport::wake() {
  is_woken_.store(true, std::memory_order_release);
  segment_->bell(options_.index).ring();
}

bool ShmTransport::shares_cores() {
  if (shares_cores_) {
    return *shares_cores_;
  }
  std::vector<Board::Cpus> cpus;
  for (std::uint32_t rank = 0; rank < segment_->shape().world; ++rank) {
    const Board& board = segment_->board(rank);
    if (!board.has(Board::kAttached)) {
      return true;  // not known yet
    }
    cpus.push_back(board.cpus());
  }
  shares_cores_ = options_.shares_cores || !have_a_core_each(cpus);
  return *shares_cores_;
}

// Also where cores are shared: the first two ranks may have one each just now, and most messages
// then go from core to core, too.
void ShmTransport::calibrate(microseconds limit) {
  probe_.measure_now(limit, [&] { return fault_.is_raised(); });
}

}  // namespace trainyard::comm
