// SPDX-License-Identifier: Apache-2.0
#include "comm/run/queue.h"

#include <mutex>
#include <utility>

#include "base/thread.h"

namespace trainyard::comm {

Queue::Queue(Collectives& collectives, Fault& fault, std::string name)
    : collectives_(collectives), fault_(fault), name_(std::move(name)) {}

Queue::~Queue() {
  std::jthread helper;
  {
    std::unique_lock lock(mutex_);
    while (is_running_ || !pending_.empty()) {
      if (is_running_) {
        ++waiting_;
        turn_.wait(lock);
        --waiting_;
        continue;
      }
      const auto work = take();
      lock.unlock();
      perform(*work, Patience::kSpin);
      lock.lock();
      finish();
    }
    helper = std::move(helper_);
  }
  helper.request_stop();
  gate()->close();
}

Result<std::shared_ptr<Work::State>> Queue::issue(Operation operation, Checked checked) {
  if (fault_.is_raised()) {
    return fault_.error();
  }
  const MutexLock lock(mutex_);
  auto work = push(std::move(operation), std::move(checked));
  if (!helper_.joinable()) {
    helper_ = start_thread("comm " + name_, [this](const std::stop_token& stop) { help(stop); });
  } else if (!is_running_) {
    work_.notify_one();
  }
  return work;
}

std::uint64_t Queue::note_elsewhere(const Checked& checked) {
  const MutexLock lock(mutex_);
  const std::uint64_t sequence = ++last_;
  collectives_.note_issued(sequence, checked);
  collectives_.note_started(sequence);
  return sequence;
}

std::shared_ptr<Work::State> Queue::push(Operation operation, Checked checked) {
  auto work = std::make_shared<Work::State>();
  work->operation = std::move(operation);
  work->checked = std::move(checked);
  work->sequence = ++last_;
  work->belong_to(*this);
  collectives_.note_issued(work->sequence, work->checked);
  pending_.push_back(work);
  return work;
}

Result<void> Queue::run(Operation operation, Checked checked) {
  if (fault_.is_raised()) {
    return fault_.error();
  }
  std::unique_lock lock(mutex_);
  if (is_running_ || !pending_.empty()) {
    const auto work = push(std::move(operation), std::move(checked));
    lock.unlock();
    work->wait();
    return work->result();
  }
  is_running_ = true;
  const std::uint64_t sequence = ++last_;
  collectives_.note_issued(sequence, checked);
  lock.unlock();
  Result<void> done = collectives_.perform(sequence, operation, checked, Patience::kSpin);
  lock.lock();
  finish();
  return done;
}

void Queue::wait_for(Work::State& work) {
  std::unique_lock lock(mutex_);
  ++waiting_;
  while (!work.is_done()) {
    if (is_running_) {
      collectives_.hurry();
      turn_.wait(lock);
      continue;
    }
    const auto next = take();
    lock.unlock();
    perform(*next, Patience::kSpin);
    lock.lock();
    finish();
  }
  --waiting_;
}

std::shared_ptr<Work::State> Queue::take() {
  auto work = std::move(pending_.front());
  pending_.pop_front();
  is_running_ = true;
  return work;
}

void Queue::finish() {
  is_running_ = false;
  if (waiting_ > 0) {
    turn_.notify_all();
  }
  if (!pending_.empty() && helper_.joinable()) {
    work_.notify_one();
  }
}

void Queue::perform(Work::State& work, Patience patience) {
  work.complete(collectives_.perform(work.sequence, work.operation, work.checked, patience));
}

void Queue::help(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (work_.wait(lock, stop, [&] { return !is_running_ && !pending_.empty(); })) {
    const auto work = take();
    const Patience patience = waiting_ > 0 ? Patience::kSpin : Patience::kSleep;
    lock.unlock();
    perform(*work, patience);
    lock.lock();
    finish();
  }
}

}  // namespace trainyard::comm
