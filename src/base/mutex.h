// SPDX-License-Identifier: Apache-2.0
// std::mutex with the annotations that clang's thread-safety analysis needs (libstdc++ has none).
#pragma once

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define YARD_GUARD(x) __attribute__((x))
#else
#define YARD_GUARD(x)
#endif
#define GUARDED_BY(m) YARD_GUARD(guarded_by(m))

namespace trainyard {

class YARD_GUARD(capability("mutex")) Mutex {
 public:
  void lock() YARD_GUARD(acquire_capability()) { mutex_.lock(); }
  void unlock() YARD_GUARD(release_capability()) { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

class YARD_GUARD(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) YARD_GUARD(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() YARD_GUARD(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

using ConditionVariable = std::condition_variable_any;  // waits on a Mutex, with a stop_token

}  // namespace trainyard
