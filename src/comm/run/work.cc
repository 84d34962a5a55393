// SPDX-License-Identifier: Apache-2.0
#include "comm/run/work.h"

#include <utility>

namespace trainyard::comm {

void Work::State::complete(Result<void> result) {
  std::vector<std::function<void(const Result<void>&)>> told;
  {
    const MutexLock lock(mutex_);
    result_ = std::move(result);
    done_.store(true, std::memory_order_release);
    told.swap(told_);
  }
  for (const auto& tell : told) {
    tell(result_);
  }
}

void Work::State::on_done(std::function<void(const Result<void>&)> told) {
  {
    const MutexLock lock(mutex_);
    if (!is_done()) {
      told_.push_back(std::move(told));
      return;
    }
  }
  told(result_);
}

Result<void> Work::wait() {
  if (!state_->is_done()) {
    state_->runner->wait_for(*state_);
  }
  return state_->result();
}

bool Work::is_done() const {
  return state_->is_done();
}

void Work::on_done(std::function<void(const Result<void>&)> told) {
  state_->on_done(std::move(told));
}

std::uint64_t Work::sequence() const {
  return state_->sequence;
}

}  // namespace trainyard::comm
