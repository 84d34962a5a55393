// SPDX-License-Identifier: Apache-2.0
// Ctrl-C as a value: while one of these lives, SIGINT ends waits and running calls through a stop
// token instead of ending the process. Make it before other threads are started, so that they
// inherit the blocked signal.
#pragma once

#include <chrono>
#include <stop_token>
#include <thread>

#include <signal.h>

#include "base/mutex.h"

namespace trainyard::cli {

class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  std::stop_token token() const { return source_.get_token(); }
  // False when it was, or is, interrupted.
  bool pause(std::chrono::milliseconds time);

 private:
  sigset_t previous_{};
  std::stop_source source_;
  Mutex mutex_;
  ConditionVariable wake_;
  std::jthread watcher_;
};

}  // namespace trainyard::cli
