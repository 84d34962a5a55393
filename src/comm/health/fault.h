// SPDX-License-Identifier: Apache-2.0
// The end of a communicator, recorded once. Whoever sees a fault first (an executor: a mismatch, a
// time-out; the watchdog: a dead or silent peer; abort(): the user) raises it; every wait loop
// looks at is_raised(), and every operation that was not complete ends with error(). Nothing is
// repaired: a communicator that had a fault is closed.
#pragma once

#include <atomic>
#include <functional>

#include "base/mutex.h"
#include "base/result.h"

namespace trainyard::comm {

class Fault {
 public:
  bool is_raised() const { return raised_.load(std::memory_order_acquire); }
  // True for the first one, which is kept; `on_raise` is then called once, on the raising thread.
  bool raise(Error error);
  Error error() const;  // only after is_raised()

  // Set once before use: passes the fault on to the other ranks and wakes sleepers.
  void on_raise(std::function<void(const Error&)> told) { told_ = std::move(told); }

 private:
  std::atomic<bool> raised_ = false;
  mutable Mutex mutex_;
  Error error_ GUARDED_BY(mutex_);
  std::function<void(const Error&)> told_;
};

}  // namespace trainyard::comm
