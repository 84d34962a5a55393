// SPDX-License-Identifier: Apache-2.0
#include "comm/run/work.h"

#include <mutex>
#include <utility>

namespace trainyard::comm {

bool Gate::enter() {
  const MutexLock lock(mutex_);
  inside_ += is_closed_ ? 0 : 1;
  return !is_closed_;
}

void Gate::leave() {
  const MutexLock lock(mutex_);
  if (--inside_ == 0) {
    left_.notify_all();
  }
}

void Gate::close() {
  std::unique_lock lock(mutex_);
  is_closed_ = true;
  left_.wait(lock, [&] { return inside_ == 0; });
}

void Work::State::wait() {
  if (!is_done() && gate_->enter()) {
    runner_->wait_for(*this);
    gate_->leave();
  }
}

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
  state_->wait();
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
