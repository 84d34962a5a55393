// SPDX-License-Identifier: Apache-2.0
#include "base/thread.h"

#include <system_error>
#include <utility>

#include <pthread.h>

#include "base/check.h"

namespace trainyard {

std::jthread start_thread(const std::string& name, std::function<void(std::stop_token)> body) {
  // The kernel keeps 15 bytes of a name and refuses longer ones.
  std::string short_name = name.substr(0, 15);
  return std::jthread(
      [short_name = std::move(short_name), body = std::move(body)](std::stop_token stop) {
        pthread_setname_np(pthread_self(), short_name.c_str());
        body(std::move(stop));
      });
}

WorkerPool::WorkerPool(std::string name, std::size_t max_threads)
    : name_(std::move(name)), max_threads_(max_threads) {
  YARD_CHECK(max_threads_ > 0, "a pool without threads would never run a task");
}

WorkerPool::~WorkerPool() {
  // A task that is still running may post another one, which may start another thread.
  for (;;) {
    std::vector<std::jthread> ending;
    {
      const MutexLock lock(mutex_);
      ending.swap(threads_);
    }
    if (ending.empty()) {
      return;
    }
    for (std::jthread& thread : ending) {
      thread.request_stop();
    }
  }
}

void WorkerPool::post(std::function<void()> task) {
  const MutexLock lock(mutex_);
  tasks_.push_back(std::move(task));
  if (tasks_.size() > idle_ && threads_.size() < max_threads_) {
    try {
      threads_.push_back(start_thread(name_, [this](const std::stop_token& stop) { work(stop); }));
    } catch (const std::system_error&) {
      // The machine is out of threads. Those that run will come to the task; without any it would
      // be lost in silence.
      YARD_CHECK(!threads_.empty(), "no thread can be started");
    }
  }
  wake_.notify_one();
}

void WorkerPool::work(const std::stop_token& stop) {
  for (;;) {
    std::function<void()> task;
    {
      const MutexLock lock(mutex_);
      ++idle_;
      const bool found = wake_.wait(mutex_, stop, [this]() YARD_GUARD(requires_capability(mutex_)) {
        return !tasks_.empty();
      });
      --idle_;
      if (!found) {
        return;
      }
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace trainyard
