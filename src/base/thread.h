// SPDX-License-Identifier: Apache-2.0
// Named threads, a bounded queue between owners, and a pool of workers for calls that block.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace trainyard {

// A jthread whose name shows in ps and gdb (15 bytes at most).
std::jthread start_thread(const std::string& name, std::function<void(std::stop_token)> body);

// Many producers, one consumer. push() waits while the queue is full; close() wakes everyone.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) {}

  // False when the queue is closed: the item was not taken.
  bool push(T item) {
    std::unique_lock lock(mutex_);
    not_full_.wait(lock, [&] { return closed_ || items_.size() < capacity_; });
    if (closed_) {
      return false;
    }
    items_.push_back(std::move(item));
    not_empty_.notify_one();
    return true;
  }

  // Empty when the time is over, or when the queue is closed and drained.
  std::optional<T> pop_for(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    not_empty_.wait_for(lock, time, [&] { return closed_ || !items_.empty(); });
    if (items_.empty()) {
      return std::nullopt;
    }
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    not_full_.notify_one();
    return item;
  }

  void close() {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
    not_empty_.notify_all();
    not_full_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable not_empty_;
  std::condition_variable not_full_;
  std::deque<T> items_;
  std::size_t capacity_;
  bool closed_ = false;
};

// Runs tasks on up to `max_threads` threads that are started when needed and kept. Destruction
// runs what was queued, then joins. post() never blocks.
class WorkerPool {
 public:
  WorkerPool(std::string name, std::size_t max_threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  void post(std::function<void()> task);

 private:
  void work(const std::stop_token& stop);

  std::string name_;
  std::size_t max_threads_;
  Mutex mutex_;
  ConditionVariable wake_;
  std::deque<std::function<void()>> tasks_ GUARDED_BY(mutex_);
  std::size_t idle_ GUARDED_BY(mutex_) = 0;
  std::vector<std::jthread> threads_ GUARDED_BY(mutex_);
};

}  // namespace trainyard
