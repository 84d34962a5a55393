// SPDX-License-Identifier: Apache-2.0
#include "s3/directory/group_commit.h"

#include <utility>

#include "base/thread.h"

namespace trainyard::s3 {

GroupCommit::GroupCommit(std::unique_ptr<Connection> writer)
    : writer_(std::move(writer)),
      thread_(start_thread("commit", [this](const std::stop_token& stop) { work(stop); })) {}

GroupCommit::~GroupCommit() = default;

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

void GroupCommit::work(const std::stop_token& stop) {
  while (true) {
    Group group;
    {
      const MutexLock lock(mutex_);
      arrived_.wait(mutex_, stop, [&] { return !queue_.empty(); });
      group.swap(queue_);
    }
    if (group.empty()) {
      return;
    }
    commit(group);
    const MutexLock lock(mutex_);
    for (Ticket* const ticket : group) {
      ticket->is_done_ = true;
      ticket->done_.notify_all();
    }
  }
}

void GroupCommit::commit(const Group& group) {
  const Result<void> done = attempt(group);
  if (done) {
    if (committed_) {
      committed_();
    }
    return;
  }
  // Fails when the transaction is already gone, which is as good.
  static_cast<void>(writer_->execute("ROLLBACK"));
  for (Ticket* const ticket : group) {
    if (ticket->result_) {
      ticket->result_ = done;
    }
  }
}

// An error is one of the whole transaction; that of one change goes into its own result.
Result<void> GroupCommit::attempt(const Group& group) {
  YARD_TRY(writer_->execute("BEGIN IMMEDIATE"));
  if (prepare_) {
    YARD_TRY(prepare_(*writer_));
  }
  for (Ticket* const ticket : group) {
    ticket->result_ = run_alone(ticket->change_);
    if (writer_->is_between_transactions()) {
      // A full disk or a failed read ends the transaction, and what the others did in it.
      return ticket->result_ ? Error{Code::kInternal, "the transaction has ended"}
                             : ticket->result_.error();
    }
  }
  return writer_->execute("COMMIT");
}

Result<void> GroupCommit::run_alone(const Change& change) {
  YARD_TRY(writer_->execute("SAVEPOINT one"));
  Result<void> result = change(*writer_);
  if (!result && !writer_->is_between_transactions()) {
    YARD_TRY(writer_->execute("ROLLBACK TO one"));
  }
  if (!writer_->is_between_transactions()) {
    YARD_TRY(writer_->execute("RELEASE one"));
  }
  return result;
}

}  // namespace trainyard::s3
