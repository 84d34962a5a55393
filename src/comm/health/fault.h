// SPDX-License-Identifier: Apache-2.0
// The end of a communicator, recorded once. Whoever sees a fault first (an executor: a mismatch, a
// time-out; the watchdog: a dead or silent peer; abort(): the user) raises it; every wait loop
// looks at is_raised(), and every operation that was not complete ends with error(). Nothing is
// repaired: a communicator that had a fault is closed.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>

#include "base/mutex.h"
#include "base/result.h"

namespace trainyard::comm {

class Fault {
 public:
  Fault() = default;
  // A file system that hangs keeps nobody's error for longer than `telling`.
  explicit Fault(std::chrono::milliseconds telling) : telling_(telling) {}

  bool is_raised() const { return raised_.load(std::memory_order_acquire); }
  // True for the first one, which is kept: it is passed on, and then `on_raise` is called, both on
  // this thread.
  bool raise(Error error);
  // Only after is_raised(). Returns when the fault has been passed on to the other ranks and,
  // unless that hangs, `on_raise` has returned: who gets it may end its process, and that must not
  // be the first thing that they hear, nor cost the flight record.
  Error error() const;
  Error peek() const;  // the same at once, for who passes it on

  // Both are set once before use. The first one returns within a moment, whatever happens.
  void pass_on_by(std::function<void(const Error&)> pass_on) { pass_on_ = std::move(pass_on); }
  void on_raise(std::function<void(const Error&)> told) { told_ = std::move(told); }

 private:
  const std::chrono::milliseconds telling_{500};
  std::atomic<bool> raised_ = false;
  std::atomic<bool> is_passed_on_ = false;
  std::atomic<bool> is_told_ = false;
  mutable Mutex mutex_;
  Error error_ GUARDED_BY(mutex_);
  std::function<void(const Error&)> pass_on_;
  std::function<void(const Error&)> told_;
};

}  // namespace trainyard::comm
