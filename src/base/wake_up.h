// SPDX-License-Identifier: Apache-2.0
// One call from one thread to another, which may come before the other sleeps: what a condition
// variable does that is signalled once, but the sleeper needs no lock to wake, so that it never
// waits for its caller a second time. Where a change of threads is a good part of the work.
#pragma once

#include <semaphore.h>

namespace trainyard {

class WakeUp {
 public:
  WakeUp() { ::sem_init(&calls_, 0, 0); }
  ~WakeUp() { ::sem_destroy(&calls_); }
  WakeUp(const WakeUp&) = delete;
  WakeUp& operator=(const WakeUp&) = delete;

  // Each call ends one sleep. What the caller did before, the sleeper sees; who has woken from the
  // last call may destroy this.
  void call() { ::sem_post(&calls_); }
  void sleep() {
    while (::sem_wait(&calls_) != 0) {
      // A signal came: again.
    }
  }

 private:
  sem_t calls_;
};

}  // namespace trainyard
