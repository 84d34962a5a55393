// SPDX-License-Identifier: Apache-2.0
// The thread that hands operations to a wrapped backend, one after another: all ranks have agreed
// on each by then, and the order is the same on all.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "completer.h"

namespace trainyard::torch_shim {

class Launcher {
 public:
  Launcher() : thread_([this] { serve(); }) {}
  ~Launcher() { stop(); }

  using Launch = std::function<void(bool is_open)>;

  // After stop() it is told so, on another thread. What it holds does not end on the caller's.
  void post(Launch launch) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (is_stopping_) {
      Completer::get().post([own = std::move(launch)] { own(false); });
      return;
    }
    pending_.push_back(std::move(launch));
    changed_.notify_one();
  }

  // Returns when all that was posted has been launched.
  void stop() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_stopping_ = true;
      changed_.notify_one();
    }
    if (thread_.joinable()) {
      thread_.join();
    }
  }

 private:
  void serve() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return is_stopping_ || !pending_.empty(); });
      if (pending_.empty()) {
        return;
      }
      auto launch = std::move(pending_.front());
      pending_.pop_front();
      lock.unlock();
      launch(true);
      launch = nullptr;  // what it holds may wait
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Launch> pending_;
  bool is_stopping_ = false;
  std::thread thread_;  // begins last
};

}  // namespace trainyard::torch_shim
