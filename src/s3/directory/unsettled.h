// SPDX-License-Identifier: Apache-2.0
// The contents that the index names and that are still being synced: whoever finds one waits, so
// that nobody reads, or copies, what a power loss could take back. Thread-safe.
#pragma once

#include <atomic>
#include <set>
#include <string>

#include "base/mutex.h"

namespace trainyard::s3 {

class Unsettled {
 public:
  // Marks a content for its life.
  class Mark {
   public:
    Mark(Unsettled& all, const std::string& content) : all_(all) {
      const MutexLock lock(all_.mutex_);
      at_ = all_.contents_.insert(content).first;
      ++all_.count_;
    }
    ~Mark() {
      const MutexLock lock(all_.mutex_);
      all_.contents_.erase(at_);
      --all_.count_;
      all_.settled_.notify_all();
    }
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;

   private:
    Unsettled& all_;
    std::set<std::string>::iterator at_;
  };

  // True when it had to wait: look again what the index says.
  bool wait_for(const std::string& content) {
    // A mark is set before the index names the content, so who has found it there sees the count.
    if (count_ == 0) {
      return false;
    }
    const MutexLock lock(mutex_);
    if (!contents_.contains(content)) {
      return false;
    }
    settled_.wait(mutex_, [&] { return !contents_.contains(content); });
    return true;
  }

 private:
  Mutex mutex_;
  ConditionVariable settled_;
  std::set<std::string> contents_ GUARDED_BY(mutex_);
  std::atomic<std::size_t> count_ = 0;
};

}  // namespace trainyard::s3
