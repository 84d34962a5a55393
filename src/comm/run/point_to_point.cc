// SPDX-License-Identifier: Apache-2.0
#include "comm/run/point_to_point.h"

#include <mutex>
#include <utility>

#include "base/thread.h"

namespace trainyard::comm {
namespace {

constexpr auto kLook = std::chrono::milliseconds(20);  // between two looks at fault and deadlines

}  // namespace

PointToPoint::PointToPoint(Transport& transport, Fault& fault, Recorder& recorder,
                           Mailbox::Setting setting)
    : transport_(transport),
      fault_(fault),
      recorder_(recorder),
      name_(setting.name),
      mailbox_(transport, fault, std::move(setting)) {}

PointToPoint::~PointToPoint() {
  is_leaving_ = true;
  std::jthread helper;
  {
    std::unique_lock lock(mutex_);
    while (is_driven_ || is_busy_ || !issued_.empty()) {
      if (is_driven_) {
        ++waiting_;
        transport_.wake();
        turn_.wait(lock);
        --waiting_;
        continue;
      }
      is_driven_ = true;
      lock.unlock();
      drive(nullptr, false);
      lock.lock();
    }
    helper = std::move(helper_);
  }
  helper.request_stop();
  gate()->close();
}

Result<std::shared_ptr<Work::State>> PointToPoint::issue(Operation operation, Checked checked) {
  return post(std::move(operation), std::move(checked), true);
}

Result<void> PointToPoint::run(Operation operation, Checked checked) {
  YARD_TRY(const auto work, post(std::move(operation), std::move(checked), false));
  work->wait();
  return work->result();
}

Result<std::shared_ptr<Work::State>> PointToPoint::post(Operation operation, Checked checked,
                                                        bool needs_help) {
  if (fault_.is_raised()) {
    return fault_.error();
  }
  auto work = std::make_shared<Work::State>();
  work->operation = std::move(operation);
  work->checked = std::move(checked);
  work->belong_to(*this);
  const auto now = std::chrono::steady_clock::now();
  const MutexLock lock(mutex_);
  work->sequence = ++last_;
  recorder_.issued(work->sequence, work->checked.signature, work->checked.bytes);
  recorder_.started(work->sequence);
  issued_.emplace_back(work, now);
  if (is_driven_) {
    transport_.wake();
  } else if (needs_help) {
    if (!helper_.joinable()) {
      helper_ = start_thread("p2p " + name_, [this](const std::stop_token& stop) { help(stop); });
    } else {
      work_.notify_one();
    }
  }
  return work;
}

void PointToPoint::wait_for(Work::State& work) {
  std::unique_lock lock(mutex_);
  ++waiting_;
  while (!work.is_done()) {
    if (is_driven_) {
      transport_.wake();  // a helper that sleeps in there hands over
      turn_.wait(lock);
      continue;
    }
    is_driven_ = true;
    lock.unlock();
    drive(&work, false);
    lock.lock();
  }
  --waiting_;
  if (!is_driven_) {
    give_turn_back();
  }
}

void PointToPoint::drive(const Work::State* work, bool yields) {
  for (;;) {
    const bool has_moved = drive_once();
    has_moved_ = has_moved_ || has_moved;
    // After a fault nobody may be there to take what is still on its way.
    const bool is_busy = !mailbox_.is_idle() || (!fault_.is_raised() && !transport_.flush());
    {
      const MutexLock lock(mutex_);
      is_busy_ = is_busy;
      const bool is_over = work != nullptr
                               ? work->is_done()
                               : (yields && waiting_ > 0) || (!is_busy && issued_.empty());
      if (is_over) {
        give_turn_back();
        return;
      }
    }
    if (!has_moved) {
      pause(yields ? Patience::kSleep : Patience::kSpin);
    }
  }
}

// To a caller that waits, or else, while something is open, to the helper.
void PointToPoint::give_turn_back() {
  is_driven_ = false;
  if (waiting_ > 0) {
    turn_.notify_all();
  } else if (is_busy_ || !issued_.empty()) {
    if (!helper_.joinable()) {
      helper_ = start_thread("p2p " + name_, [this](const std::stop_token& stop) { help(stop); });
    }
    work_.notify_one();
  }
}

bool PointToPoint::drive_once() {
  std::vector<Issued> issued;
  {
    const MutexLock lock(mutex_);
    issued.swap(issued_);
  }
  for (Issued& one : issued) {
    mailbox_.post(std::move(one.first), one.second);
  }
  const bool has_moved = mailbox_.drive();
  complete(mailbox_.take_done(), {});
  if (fault_.is_raised()) {
    complete(mailbox_.take_open(), fault_.error());
  }
  return has_moved || !issued.empty();
}

void PointToPoint::complete(const std::vector<std::shared_ptr<Work::State>>& works,
                            const Result<void>& result) {
  for (const auto& work : works) {
    if (!result || !work->checked.is_elsewhere) {
      recorder_.ended(work->sequence, result.has_value());
    }
    work->complete(result);
  }
  const MutexLock lock(mutex_);
  if (!works.empty() && waiting_ > 0) {
    turn_.notify_all();  // one of them may be what another caller waits for
  }
}

void PointToPoint::pause(Patience patience) {
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_ >= kLook) {
    looked_ = now;
    mailbox_.check_deadlines(now);
    if (std::exchange(has_moved_, false) || !is_leaving_) {
      moved_ = now;
    } else if (now - moved_ >= kParting) {
      mailbox_.give_up_unmatched();
    }
  }
  if (!fault_.is_raised()) {
    transport_.wait(patience, kLook);
  }
}

void PointToPoint::help(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (work_.wait(
      lock, stop, [&] { return !is_driven_ && waiting_ == 0 && (is_busy_ || !issued_.empty()); })) {
    is_driven_ = true;
    lock.unlock();
    drive(nullptr, true);
    lock.lock();
  }
}

}  // namespace trainyard::comm
