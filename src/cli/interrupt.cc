// SPDX-License-Identifier: Apache-2.0
#include "cli/interrupt.h"

#include <ctime>
#include <mutex>

#include <pthread.h>

#include "base/thread.h"

namespace trainyard::cli {
namespace {

sigset_t only_sigint() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

Interrupt::Interrupt() {
  const sigset_t set = only_sigint();
  pthread_sigmask(SIG_BLOCK, &set, &previous_);
  watcher_ = start_thread("interrupt", [this](const std::stop_token& stop) {
    const sigset_t awaited = only_sigint();
    // Short waits, so that the end of the program is not held up.
    const timespec slice{.tv_sec = 0, .tv_nsec = 50'000'000};
    while (!stop.stop_requested()) {
      if (sigtimedwait(&awaited, nullptr, &slice) == SIGINT) {
        source_.request_stop();
        return;
      }
    }
  });
}

Interrupt::~Interrupt() {
  watcher_.request_stop();
  watcher_.join();
  pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
}

bool Interrupt::pause(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, source_.get_token(), time, [] { return false; });
  return !source_.stop_requested();
}

}  // namespace trainyard::cli
