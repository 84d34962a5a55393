// SPDX-License-Identifier: Apache-2.0
// Lets writers that come together share one transaction and its one fsync. Whoever finds nobody
// writing leads: it runs the bodies of all that wait, in the order in which they came, each in a
// savepoint of its own, commits once, and tells everyone. Meanwhile the next ones gather; the first
// of them leads next. So nobody waits for more than the commit at hand and its own, and no kind of
// writer can keep another one out.
//
// A body that fails is undone alone. When the shared transaction itself fails (a full disk, a
// failed sync), nothing of it is kept and each body is run again in a transaction of its own, so
// that a failure is told to those whom it concerns.
#pragma once

#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "control/tables/connection.h"

namespace trainyard::control {

class CommitQueue {
 public:
  // May be run twice, and by the thread of another writer: what it leaves outside of the database
  // is of its last run.
  using Body = std::function<Result<void>(Connection&)>;
  enum class Moment { kBeforeCommit, kAfterCommit };
  using Interruption = std::function<Result<void>(Moment)>;

  explicit CommitQueue(Connection& writer) : writer_(writer) {}  // has it for itself from now on

  // Returns when what `body` wrote is on disk, or with the reason why nothing of it is. Any thread.
  Result<void> write(const Body& body);

  // How many gather for the next commit.
  std::size_t waiting();

  // For tests of crashes; see Database::interrupt_by().
  void interrupt_by(Interruption interruption) { interruption_ = std::move(interruption); }

 private:
  struct Waiting {
    const Body& body;
    Result<void> result = {};
    bool is_done = false;
    bool leads = false;
    ConditionVariable changed = {};
  };
  using Group = std::vector<Waiting*>;

  void lead(Waiting& first);
  void run(std::span<Waiting* const> group);
  Result<void> run_all(std::span<Waiting* const> group);
  Result<void> run_in_savepoint(Waiting& write);
  void run_alone(Waiting& write);
  Result<void> commit();
  void roll_back();

  Connection& writer_;  // of the one that leads
  Interruption interruption_;
  Mutex mutex_;
  std::deque<Waiting*> queue_ GUARDED_BY(mutex_);  // its first leads, once anyone has
  bool is_led_ GUARDED_BY(mutex_) = false;
};

}  // namespace trainyard::control
