// SPDX-License-Identifier: Apache-2.0
// Work that must not be done twice at once for the same name: who comes while another is at it
// waits for its end, and then looks whether anything is left to do. Thread-safe.
#pragma once

#include <set>
#include <string>

#include "base/mutex.h"

namespace trainyard::s3 {

class Turns {
 public:
  // Waits until no other turn has that name; then the name is this one's for life.
  class Turn {
   public:
    Turn(Turns& all, const std::string& name) : all_(all), name_(name) {
      const MutexLock lock(all_.mutex_);
      all_.over_.wait(all_.mutex_, [&] { return !all_.taken_.contains(name_); });
      all_.taken_.insert(name_);
    }
    ~Turn() {
      const MutexLock lock(all_.mutex_);
      all_.taken_.erase(name_);
      all_.over_.notify_all();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Turns& all_;
    const std::string name_;
  };

 private:
  Mutex mutex_;
  ConditionVariable over_;
  std::set<std::string> taken_ GUARDED_BY(mutex_);
};

}  // namespace trainyard::s3
