// SPDX-License-Identifier: Apache-2.0
#include "comm/health/fault.h"

#include <utility>

namespace trainyard::comm {

bool Fault::raise(Error error) {
  {
    const MutexLock lock(mutex_);
    if (raised_.load(std::memory_order_relaxed)) {
      return false;
    }
    error_ = std::move(error);
    raised_.store(true, std::memory_order_release);
  }
  if (told_) {
    told_(this->error());
  }
  return true;
}

Error Fault::error() const {
  const MutexLock lock(mutex_);
  return error_;
}

}  // namespace trainyard::comm
