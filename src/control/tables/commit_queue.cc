// SPDX-License-Identifier: Apache-2.0
#include "control/tables/commit_queue.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/log.h"

namespace trainyard::control {
namespace {

// Bounds what one failure makes run again.
constexpr std::size_t kMostAtOnce = 128;

Result<void> run_statement(Connection& connection, std::string_view sql) {
  YARD_TRY(Statement statement, connection.prepare(sql));
  return statement.run();
}

}  // namespace

Result<void> CommitQueue::write(const Body& body) {
  Waiting mine{.body = body};
  {
    std::unique_lock lock(mutex_);
    queue_.push_back(&mine);
    mine.leads = !std::exchange(is_led_, true);
    mine.changed.wait(lock, [&] { return mine.is_done || mine.leads; });
  }
  if (mine.leads) {
    lead(mine);
  }
  return mine.result;
}

std::size_t CommitQueue::waiting() {
  const MutexLock lock(mutex_);
  return queue_.size();
}

void CommitQueue::lead(Waiting& first) {
  Group group;
  {
    const MutexLock lock(mutex_);
    const auto count = static_cast<std::ptrdiff_t>(std::min(queue_.size(), kMostAtOnce));
    group.assign(queue_.begin(), queue_.begin() + count);
    queue_.erase(queue_.begin(), queue_.begin() + count);
  }
  run(group);
  const MutexLock lock(mutex_);
  is_led_ = !queue_.empty();
  if (is_led_) {
    queue_.front()->leads = true;
    queue_.front()->changed.notify_one();
  }
  // Under the lock: whoever is told may go, and takes its condition with it.
  for (Waiting* const write : group) {
    write->is_done = true;
    if (write != &first) {
      write->changed.notify_one();
    }
  }
}

void CommitQueue::run(std::span<Waiting* const> group) {
  if (group.size() > 1) {
    const Result<void> together = run_all(group);
    if (together) {
      return;
    }
    if (interruption_) {  // no power: nobody runs anything again
      for (Waiting* const write : group) {
        write->result = together;
      }
      return;
    }
    log_warning(fmt::format("{} writes could not share a commit and go one by one: {}",
                            group.size(), together.error().message));
  }
  for (Waiting* const write : group) {
    run_alone(*write);
  }
}

Result<void> CommitQueue::run_all(std::span<Waiting* const> group) {
  YARD_TRY(run_statement(writer_, "BEGIN IMMEDIATE"));
  const auto bodies = [&]() -> Result<void> {
    for (Waiting* const write : group) {
      YARD_TRY(run_in_savepoint(*write));
    }
    return commit();
  };
  Result<void> done = bodies();
  if (!done) {
    roll_back();
  }
  return done;
}

// An error is one of the transaction as a whole.
Result<void> CommitQueue::run_in_savepoint(Waiting& write) {
  YARD_TRY(run_statement(writer_, "SAVEPOINT one"));
  write.result = write.body(writer_);
  if (!writer_.in_transaction()) {
    return write.result ? Result<void>(Error{Code::kInternal, "the transaction has ended"})
                        : write.result;
  }
  if (!write.result) {
    YARD_TRY(run_statement(writer_, "ROLLBACK TO one"));
  }
  return run_statement(writer_, "RELEASE one");
}

void CommitQueue::run_alone(Waiting& write) {
  write.result = run_statement(writer_, "BEGIN IMMEDIATE");
  if (!write.result) {
    return;
  }
  write.result = write.body(writer_);
  if (write.result) {
    write.result = commit();
  }
  if (!write.result) {
    roll_back();
  }
}

Result<void> CommitQueue::commit() {
  const auto interrupted = [this](Moment moment) {
    return interruption_ ? interruption_(moment) : Result<void>();
  };
  YARD_TRY(interrupted(Moment::kBeforeCommit));
  YARD_TRY(run_statement(writer_, "COMMIT"));
  return interrupted(Moment::kAfterCommit);
}

void CommitQueue::roll_back() {
  if (!writer_.in_transaction()) {
    return;  // SQLite has done so already, or it was committed
  }
  if (auto done = run_statement(writer_, "ROLLBACK"); !done) {
    log_error(fmt::format("a transaction cannot be rolled back: {}", done.error().message));
  }
}

}  // namespace trainyard::control
