// SPDX-License-Identifier: Apache-2.0
// Tells when processes end. One thread waits on all their pidfds, so that it makes no difference
// whether a process is our child (it is then reaped too) or was started by a server before us.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "base/fd.h"
#include "base/mutex.h"
#include "base/result.h"

namespace trainyard::engine {

class ExitWatch {
 public:
  static Result<std::unique_ptr<ExitWatch>> make();
  ~ExitWatch();
  ExitWatch(const ExitWatch&) = delete;
  ExitWatch& operator=(const ExitWatch&) = delete;

  // Calls `ended` once, from the watching thread. It is called also for a process that has ended
  // already. Not called any more once the watch is destroyed.
  Result<void> add(Fd pidfd, std::function<void()> ended);

 private:
  struct Entry {
    Fd pidfd;
    std::function<void()> ended;
  };

  ExitWatch(Fd epoll, Fd wake) : epoll_(std::move(epoll)), wake_(std::move(wake)) {}
  void run(const std::stop_token& stop);
  void take(std::uint64_t key);

  Fd epoll_;
  Fd wake_;  // an eventfd that ends the thread's wait
  Mutex mutex_;
  std::map<std::uint64_t, Entry> entries_ GUARDED_BY(mutex_);
  std::uint64_t next_key_ GUARDED_BY(mutex_) = 1;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace trainyard::engine
