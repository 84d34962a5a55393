// SPDX-License-Identifier: Apache-2.0
// The thread that hands operations to a wrapped backend, one after another: all ranks have agreed
// on each by then, and the order is the same on all.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace trainyard::torch_shim {

class Launcher {
 public:
  Launcher() : thread_([this] { serve(); }) {}
  ~Launcher() { stop(); }

  // False after stop(): then it is not called.
  bool post(std::function<void()> launch) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (is_stopping_) {
      return false;
    }
    pending_.push_back(std::move(launch));
    changed_.notify_one();
    return true;
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
      const auto launch = std::move(pending_.front());
      pending_.pop_front();
      lock.unlock();
      launch();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> pending_;
  bool is_stopping_ = false;
  std::thread thread_;  // begins last
};

}  // namespace trainyard::torch_shim
