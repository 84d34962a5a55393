// SPDX-License-Identifier: Apache-2.0
// The threads that run handlers, in the order of a FairQueue. Threads are started when they are
// needed and kept; the one that has slept least is woken first, because its stack and the memory
// that it used are still in the caches, and those that a burst needed sleep on. A thread is woken
// after the lock has gone, which it would wait for otherwise: two changes of threads instead of one
// for each request.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/wake_up.h"
#include "http/internal/fair_queue.h"

namespace trainyard::http {

class Workers {
 public:
  // `nice`: how much less of a busy processor its threads get (nice(2)); not negative.
  Workers(std::size_t max_threads, std::size_t max_waiting, int nice = 0);
  ~Workers() { end(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // False when there is no room for another task of that client, or no thread and none can be
  // started, or after end(); `task` is then untouched. Never blocks.
  bool post(const std::string& client, FairQueue::Task& task,
            FairQueue::Room room = FairQueue::Room::kShare);
  // For a thread that has a task of that client at hand and time for it: true when it may run it
  // itself, as one of the workers that there may be. Then it has to call finish().
  bool begin(const std::string& client);
  void finish(const std::string& client);
  std::size_t waiting();
  // Runs what waits, then joins. Not from one of its threads.
  void end();
  bool has_ended();

 private:
  void work(WakeUp& me);
  std::optional<FairQueue::Next> next(WakeUp& me, const std::optional<std::string>& last);
  WakeUp* one_if_owed() YARD_GUARD(requires_capability(mutex_));
  WakeUp* one_to_call() YARD_GUARD(requires_capability(mutex_));
  bool add_thread() YARD_GUARD(requires_capability(mutex_));

  const std::size_t max_threads_;
  const int nice_;
  Mutex mutex_;
  FairQueue queue_ GUARDED_BY(mutex_);
  std::deque<WakeUp> sleepers_ GUARDED_BY(mutex_);  // one for each thread
  // Of those that wait for a call, the last one lay down last. Who takes one from here calls it.
  std::vector<WakeUp*> asleep_ GUARDED_BY(mutex_);
  // Tasks wait for which no thread was called, or in vain, because their clients had used up their
  // shares: whoever makes room for one calls another. Else each task has called its own, and more
  // would only be in the way.
  bool is_owed_ GUARDED_BY(mutex_) = false;
  bool is_ending_ GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_ GUARDED_BY(mutex_);
};

}  // namespace trainyard::http
