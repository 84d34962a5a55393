// SPDX-License-Identifier: Apache-2.0
// The threads that run handlers, in the order of a FairQueue. Threads are started when they are
// needed and kept; the one that has slept least is woken first, because its stack and the memory
// that it used are still in the caches, and those that a burst needed sleep on. Destruction runs
// what waits, then joins.
#pragma once

#include <cstddef>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "http/internal/fair_queue.h"

namespace trainyard::http {

class Workers {
 public:
  // `nice`: how much less of a busy processor its threads get (nice(2)); not negative.
  Workers(std::size_t max_threads, std::size_t max_waiting, int nice = 0);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // False when there is no room for another task of that client, or no thread and none can be
  // started; `task` is then untouched. Never blocks.
  bool post(const std::string& client, FairQueue::Task& task,
            FairQueue::Room room = FairQueue::Room::kShare);
  std::size_t waiting();

 private:
  // One thread that sleeps, on its own stack.
  struct Sleeper {
    ConditionVariable wake;
    bool is_called = false;
  };

  void work(const std::stop_token& stop);
  std::optional<FairQueue::Next> next(const std::stop_token& stop)
      YARD_GUARD(requires_capability(mutex_));
  void sleep(const std::stop_token& stop) YARD_GUARD(requires_capability(mutex_));
  void call_one() YARD_GUARD(requires_capability(mutex_));
  bool add_thread() YARD_GUARD(requires_capability(mutex_));

  const std::size_t max_threads_;
  const int nice_;
  Mutex mutex_;
  FairQueue queue_ GUARDED_BY(mutex_);
  std::vector<Sleeper*> asleep_ GUARDED_BY(mutex_);  // the last one lay down last
  // Tasks wait for which no thread was called, or in vain, because their clients had used up their
  // shares: whoever makes room for one calls another. Else each task has called its own, and more
  // would only be in the way.
  bool is_owed_ GUARDED_BY(mutex_) = false;
  bool is_ending_ GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_ GUARDED_BY(mutex_);
};

}  // namespace trainyard::http
