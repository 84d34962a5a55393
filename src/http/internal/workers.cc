// SPDX-License-Identifier: Apache-2.0
#include "http/internal/workers.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include <sys/resource.h>
#include <unistd.h>

#include "base/thread.h"

namespace trainyard::http {

Workers::Workers(std::size_t max_threads, std::size_t max_waiting, int nice)
    : max_threads_(std::max<std::size_t>(max_threads, 1)),
      nice_(nice),
      queue_(max_threads_, max_waiting) {}

void Workers::end() {
  std::vector<std::jthread> ending;
  std::vector<WakeUp*> called;
  {
    const MutexLock lock(mutex_);
    is_ending_ = true;
    ending.swap(threads_);
    called.swap(asleep_);
  }
  for (WakeUp* const one : called) {
    one->call();
  }
}

bool Workers::has_ended() {
  const MutexLock lock(mutex_);
  return is_ending_;
}

bool Workers::post(const std::string& client, FairQueue::Task& task, FairQueue::Room room) {
  WakeUp* called = nullptr;
  {
    const MutexLock lock(mutex_);
    const bool is_first = threads_.empty();
    if (is_ending_ || (is_first && !add_thread())) {
      return false;  // nobody would ever come to it
    }
    if (!queue_.push(client, task, room)) {
      return false;
    }
    if (!queue_.has_ready()) {
      is_owed_ = true;  // who ends a task of this client, or enough of others', will come to it
    } else if (!is_first) {
      called = one_to_call();
    }
  }
  if (called != nullptr) {
    called->call();
  }
  return true;
}

std::size_t Workers::waiting() {
  const MutexLock lock(mutex_);
  return queue_.waiting();
}

bool Workers::begin(const std::string& client) {
  const MutexLock lock(mutex_);
  return !is_ending_ && queue_.begin(client);
}

void Workers::finish(const std::string& client) {
  WakeUp* called = nullptr;
  {
    const MutexLock lock(mutex_);
    queue_.done(client);
    called = one_if_owed();
  }
  if (called != nullptr) {
    called->call();
  }
}

WakeUp* Workers::one_if_owed() {
  is_owed_ = is_owed_ && queue_.waiting() > 0;
  return is_owed_ && queue_.has_ready() ? one_to_call() : nullptr;
}

// Without any that sleeps, a new one; without that either, those that run will come to the task.
WakeUp* Workers::one_to_call() {
  if (asleep_.empty()) {
    add_thread();
    return nullptr;
  }
  WakeUp* const one = asleep_.back();
  asleep_.pop_back();
  return one;
}

// False when there are as many as there may be, or the machine is out of threads.
bool Workers::add_thread() {
  if (is_ending_ || threads_.size() >= max_threads_) {
    return false;
  }
  try {
    WakeUp& its = sleepers_.emplace_back();
    threads_.push_back(
        start_thread("http-work", [this, &its](const std::stop_token&) { work(its); }));
  } catch (const std::system_error&) {
    sleepers_.pop_back();
    return false;
  }
  return true;
}

// While tasks wait nobody goes, not even at the end: those may be of a client whose share is used
// up by a thread that is none of these, and that can only call one. Who goes takes the sleepers
// along.
std::optional<FairQueue::Next> Workers::next(WakeUp& me, const std::optional<std::string>& last) {
  std::optional<FairQueue::Next> found;
  std::vector<WakeUp*> called;
  for (bool is_back = last.has_value(); !found; is_back = false) {
    {
      const MutexLock lock(mutex_);
      if (is_back) {
        queue_.done(*last);
      }
      found = queue_.pop();
      is_owed_ = found ? is_owed_ : queue_.waiting() > 0;
      if (WakeUp* const one = found ? one_if_owed() : nullptr; one != nullptr) {
        called.push_back(one);
      }
      if (!found && is_ending_ && queue_.waiting() == 0) {
        called.swap(asleep_);
        break;
      }
      if (!found) {
        asleep_.push_back(&me);
      }
    }
    if (!found) {
      me.sleep();
    }
  }
  for (WakeUp* const one : called) {
    one->call();
  }
  return found;
}

void Workers::work(WakeUp& me) {
  if (nice_ > 0) {
    // Of this thread alone, on Linux. Everyone may ask for less; going back would need a privilege.
    const auto self = static_cast<id_t>(::gettid());
    ::setpriority(PRIO_PROCESS, self, ::getpriority(PRIO_PROCESS, self) + nice_);
  }
  std::optional<std::string> last;  // the client of the task that this thread has run
  while (auto turn = next(me, last)) {
    turn->task();
    last = std::move(turn->client);
  }
}

}  // namespace trainyard::http
