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

Workers::~Workers() {
  std::vector<std::jthread> ending;
  {
    const MutexLock lock(mutex_);
    is_ending_ = true;
    ending.swap(threads_);
  }
  for (std::jthread& thread : ending) {
    thread.request_stop();
  }
}

bool Workers::post(const std::string& client, FairQueue::Task& task, FairQueue::Room room) {
  const MutexLock lock(mutex_);
  const bool is_first = threads_.empty();
  if (is_first && !add_thread()) {
    return false;  // nobody would ever come to it
  }
  if (!queue_.push(client, task, room)) {
    return false;
  }
  if (!queue_.has_ready()) {
    is_owed_ = true;  // who ends a task of this client, or enough of others', will come to it
  } else if (!is_first) {
    call_one();
  }
  return true;
}

std::size_t Workers::waiting() {
  const MutexLock lock(mutex_);
  return queue_.waiting();
}

// Without any that sleeps, a new one; without that either, those that run will come to the task.
void Workers::call_one() {
  if (asleep_.empty()) {
    add_thread();
    return;
  }
  Sleeper* const sleeper = asleep_.back();
  asleep_.pop_back();
  sleeper->is_called = true;
  sleeper->wake.notify_one();
}

// False when there are as many as there may be, or the machine is out of threads.
bool Workers::add_thread() {
  if (is_ending_ || threads_.size() >= max_threads_) {
    return false;
  }
  try {
    threads_.push_back(
        start_thread("http-work", [this](const std::stop_token& stop) { work(stop); }));
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

// Until it is called, or a stop is requested.
void Workers::sleep(const std::stop_token& stop) {
  Sleeper me;
  asleep_.push_back(&me);
  me.wake.wait(mutex_, stop, [&me] { return me.is_called; });
  std::erase(asleep_, &me);
}

// Who waits for a stop may go although tasks are left: they are of clients that have others
// running, and the threads of those look again.
std::optional<FairQueue::Next> Workers::next(const std::stop_token& stop) {
  while (!queue_.has_ready()) {
    is_owed_ = is_owed_ || queue_.waiting() > 0;
    if (stop.stop_requested()) {
      return std::nullopt;
    }
    sleep(stop);
  }
  auto found = queue_.pop();
  is_owed_ = is_owed_ && queue_.waiting() > 0;
  if (is_owed_ && queue_.has_ready()) {
    call_one();
  }
  return found;
}

void Workers::work(const std::stop_token& stop) {
  if (nice_ > 0) {
    // Of this thread alone, on Linux. Everyone may ask for less; going back would need a privilege.
    const auto self = static_cast<id_t>(::gettid());
    ::setpriority(PRIO_PROCESS, self, ::getpriority(PRIO_PROCESS, self) + nice_);
  }
  std::optional<std::string> last;  // the client of the task that this thread has run
  for (;;) {
    std::optional<FairQueue::Next> turn;
    {
      const MutexLock lock(mutex_);
      if (last) {
        queue_.done(*last);
      }
      turn = next(stop);
    }
    if (!turn) {
      return;
    }
    turn->task();
    last = std::move(turn->client);
  }
}

}  // namespace trainyard::http
