// SPDX-License-Identifier: Apache-2.0
// A clock that stands still until a test moves it; any thread may read or move it. Wall time and
// steady time move together unless a test sets the wall time, as an administrator would.
#pragma once

#include <chrono>
#include <mutex>

#include "base/clock.h"

namespace trainyard::testing {

class FakeClock final : public Clock {
 public:
  // 2026-11-29T20:12:05.000Z
  explicit FakeClock(WallTime start = WallTime(std::chrono::seconds(1795983125)))
      : wall_(start), steady_(std::chrono::hours(1)) {}

  WallTime now() const override {
    const std::scoped_lock lock(mutex_);
    return wall_;
  }

  SteadyTime steady_now() const override {
    const std::scoped_lock lock(mutex_);
    return steady_;
  }

  void advance(Duration time) {
    const std::scoped_lock lock(mutex_);
    wall_ += time;
    steady_ += time;
  }

  // Steady time is untouched.
  void set_now(WallTime time) {
    const std::scoped_lock lock(mutex_);
    wall_ = time;
  }

 private:
  mutable std::mutex mutex_;
  WallTime wall_;
  SteadyTime steady_;
};

}  // namespace trainyard::testing
