// SPDX-License-Identifier: Apache-2.0
// Threads that complete futures. What follows a future may take its time, take the interpreter's
// lock, and wait for other futures (PowerSGD's hook does), so it must not run on the thread of the
// library that moves the messages; and a thread that waits must not keep others from being
// completed, so there is one more whenever none is free.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <pthread.h>

#include "base.h"

namespace trainyard::torch_shim {

class Completer {
 public:
  // Futures may complete while the interpreter goes away, so it outlives that.
  static Completer& get() { return of_this_process<Completer>(); }

  void post(std::function<void()> work) {
    const std::lock_guard<std::mutex> lock(mutex_);
    pending_.push_back(std::move(work));
    if (pending_.size() > idle_ && threads_.size() < kMostThreads) {
      threads_.emplace_back([this] { serve(); });
    }
    there_is_work_.notify_one();
  }

 private:
  static constexpr std::size_t kMostThreads = 64;

  void serve() {
    pthread_setname_np(pthread_self(), "completer");  // not that of who began it
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      ++idle_;
      there_is_work_.wait(lock, [&] { return !pending_.empty(); });
      --idle_;
      auto work = std::move(pending_.front());
      pending_.pop_front();
      lock.unlock();
      work();
      work = nullptr;  // what it holds may wait, too
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable there_is_work_;
  std::deque<std::function<void()>> pending_;
  std::vector<std::thread> threads_;
  std::size_t idle_ = 0;
};

}  // namespace trainyard::torch_shim
