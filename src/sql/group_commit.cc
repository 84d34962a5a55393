// SPDX-License-Identifier: Apache-2.0
#include "sql/group_commit.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/thread.h"

namespace trainyard::sql {
namespace {

// Bounds what one failure makes run again.
constexpr std::size_t kMostAtOnce = 128;

}  // namespace

GroupCommit::GroupCommit(Connection writer, AroundEach around)
    : writer_(std::move(writer)),
      around_(std::move(around)),
      thread_(start_thread("commit", [this](const std::stop_token& stop) { work(stop); })) {}

GroupCommit::Ticket::Ticket(GroupCommit& commits, Change change)
    : commits_(commits), change_(std::move(change)) {
  const MutexLock lock(commits_.mutex_);
  commits_.queue_.push_back(this);
  commits_.arrived_.notify_one();
}

Result<void> GroupCommit::Ticket::wait() {
  const MutexLock lock(commits_.mutex_);
  done_.wait(commits_.mutex_, [&] { return is_done_; });
  return result_;
}

std::size_t GroupCommit::waiting() {
  const MutexLock lock(mutex_);
  return queue_.size();
}

void GroupCommit::work(const std::stop_token& stop) {
  while (true) {
    const Group group = next(stop);
    if (group.empty()) {
      return;
    }
    commit(group);
    // Told under the lock: a ticket may go as soon as it knows.
    const MutexLock lock(mutex_);
    for (Ticket* const ticket : group) {
      ticket->is_done_ = true;
      ticket->done_.notify_all();
    }
  }
}

// Empty at the end.
GroupCommit::Group GroupCommit::next(const std::stop_token& stop) {
  const MutexLock lock(mutex_);
  arrived_.wait(mutex_, stop, [&] { return !queue_.empty(); });
  const auto end =
      queue_.begin() + static_cast<std::ptrdiff_t>(std::min(queue_.size(), kMostAtOnce));
  Group group(queue_.begin(), end);
  queue_.erase(queue_.begin(), end);
  return group;
}

void GroupCommit::commit(const Group& group) {
  if (group.size() > 1 && commit_together(group)) {
    return;
  }
  for (Ticket* const ticket : group) {
    ticket->result_ = commit_alone(ticket->change_);
  }
}

// False: nothing of it is kept, and each may be tried alone.
bool GroupCommit::commit_together(const Group& group) {
  Result<Transaction> transaction = begin();
  const Result<void> together =
      transaction ? run_parts(*transaction, group) : Result<void>(transaction.error());
  if (together) {
    return true;
  }
  if (transaction && has_power_) {
    log_warning(fmt::format("{} writes could not share a commit and go one by one: {}",
                            group.size(), together.error().message));
    return false;
  }
  for (Ticket* const ticket : group) {
    ticket->result_ = together;
  }
  return true;
}

Result<void> GroupCommit::run_parts(Transaction& transaction, const Group& group) {
  for (Ticket* const ticket : group) {
    YARD_TRY(transaction.run_part([&] { return ticket->change_(writer_); }, ticket->result_));
  }
  return end(transaction);
}

Result<void> GroupCommit::commit_alone(const Change& change) {
  YARD_TRY(Transaction transaction, begin());
  YARD_TRY(change(writer_));
  return end(transaction);
}

Result<Transaction> GroupCommit::begin() {
  YARD_TRY(Transaction transaction, Transaction::begin(writer_));
  if (around_.first) {
    YARD_TRY(around_.first(writer_));
  }
  return transaction;
}

Result<void> GroupCommit::end(Transaction& transaction) {
  YARD_TRY(interrupted(Moment::kBeforeCommit));
  YARD_TRY(transaction.commit());
  if (around_.committed) {
    around_.committed();
  }
  return interrupted(Moment::kAfterCommit);
}

Result<void> GroupCommit::interrupted(Moment moment) {
  Result<void> asked = interruption_ ? interruption_(moment) : Result<void>();
  has_power_ = has_power_ && asked;
  return asked;
}

}  // namespace trainyard::sql
