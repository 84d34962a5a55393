// SPDX-License-Identifier: Apache-2.0
// The one writing connection of a database, and the thread that uses it. Changes that arrive while
// a transaction is being synced wait together and become the next one, in the order in which they
// came: a hundred writers cost one sync, and nobody waits for more than the commit at hand and its
// own. Who has handed in a change may do other things until it asks for the result.
//
// A change that fails is undone alone. When the shared transaction itself fails (a full disk, a
// failed sync), nothing of it is kept and each change is run again in a transaction of its own, so
// that a failure is told to those whom it concerns.
#pragma once

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "sql/connection.h"
#include "sql/transaction.h"

namespace trainyard::sql {

// Runs inside a transaction on the committing thread, never at the same time as another. It only
// runs statements, nothing that may block. Perhaps it is run twice: what it leaves outside of the
// database is of its last run.
using Change = std::function<Result<void>(Connection&)>;

// Called on the committing thread, for each transaction.
struct AroundEach {
  Change first = {};  // before the changes; when it fails, so do they
  std::function<void()> committed = {};
};

class GroupCommit {
 public:
  explicit GroupCommit(Connection writer, AroundEach around = {});
  ~GroupCommit() = default;  // after all tickets

  // A change on its way. It and what it refers to are in use until wait() returns, which the
  // destructor calls too.
  class Ticket {
   public:
    Ticket(GroupCommit& commits, Change change);
    ~Ticket() { static_cast<void>(wait()); }
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;

    // Returns when the change is on the disk, or with the reason why nothing of it is.
    Result<void> wait();

   private:
    friend class GroupCommit;
    GroupCommit& commits_;
    const Change change_;
    Result<void> result_;
    bool is_done_ = false;
    ConditionVariable done_;
  };

  // Any thread but the committing one.
  Result<void> run(Change change) { return Ticket(*this, std::move(change)).wait(); }

  // How many gather for the next transaction.
  std::size_t waiting();

  // For tests of crashes: asked at both moments of each transaction. An error ends it there, as
  // losing power would. Set before the first change.
  enum class Moment { kBeforeCommit, kAfterCommit };
  using Interruption = std::function<Result<void>(Moment)>;
  void interrupt_by(Interruption interruption) { interruption_ = std::move(interruption); }

 private:
  using Group = std::vector<Ticket*>;

  void work(const std::stop_token& stop);
  Group next(const std::stop_token& stop);
  void commit(const Group& group);
  bool commit_together(const Group& group);
  Result<void> commit_alone(const Change& change);
  Result<void> run_parts(Transaction& transaction, const Group& group);
  Result<Transaction> begin();
  Result<void> end(Transaction& transaction);
  Result<void> interrupted(Moment moment);

  Connection writer_;  // of the thread, as are the next three
  const AroundEach around_;
  Interruption interruption_;
  bool has_power_ = true;

  Mutex mutex_;
  ConditionVariable arrived_;
  std::vector<Ticket*> queue_ GUARDED_BY(mutex_);
  std::jthread thread_;  // last: it uses the others
};

}  // namespace trainyard::sql
