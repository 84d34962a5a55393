// SPDX-License-Identifier: Apache-2.0
#include "comm/health/fault.h"

#include <chrono>
#include <thread>
#include <utility>

namespace trainyard::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kPause{1};

}  // namespace

bool Fault::raise(Error error) {
  {
    const MutexLock lock(mutex_);
    if (raised_.load(std::memory_order_relaxed)) {
      return false;
    }
    error_ = std::move(error);
    raised_.store(true, std::memory_order_release);
  }
  if (pass_on_) {
    pass_on_(peek());
  }
  is_passed_on_.store(true, std::memory_order_release);
  is_passed_on_.notify_all();
  if (told_) {
    told_(peek());
  }
  is_told_.store(true, std::memory_order_release);
  return true;
}

Error Fault::error() const {
  if (is_raised()) {
    is_passed_on_.wait(false, std::memory_order_acquire);
    const auto end = steady_clock::now() + telling_;
    while (!is_told_.load(std::memory_order_acquire) && steady_clock::now() < end) {
      std::this_thread::sleep_for(kPause);
    }
  }
  return peek();
}

Error Fault::peek() const {
  const MutexLock lock(mutex_);
  return error_;
}

}  // namespace trainyard::comm
