// SPDX-License-Identifier: Apache-2.0
// The one writing connection of an index, and the thread that uses it. Changes that arrive while a
// transaction is being synced wait together and become the next one, so that a hundred writers cost
// one sync, not a hundred. Who has handed in a change may do other things until it asks for the
// result: a PUT syncs its file meanwhile. For index.cc only.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "s3/directory/sqlite.h"

namespace trainyard::s3 {

class GroupCommit {
 public:
  // Runs inside a transaction on the committing thread, never at the same time as another.
  using Change = std::function<Result<void>(Connection&)>;

  explicit GroupCommit(std::unique_ptr<Connection> writer);
  ~GroupCommit();  // commits what was handed in

  // A change on its way. It and what it refers to are in use until wait() returns, which the
  // destructor calls too.
  class Ticket {
   public:
    Ticket(GroupCommit& commits, Change change);
    ~Ticket() { static_cast<void>(wait()); }
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;

    // Returns when the change is durable, or with its error; then nothing of it has happened. A
    // transaction that cannot be committed fails all changes in it.
    Result<void> wait();

   private:
    friend class GroupCommit;
    GroupCommit& commits_;
    const Change change_;
    Result<void> result_;
    bool is_done_ = false;
    ConditionVariable done_;
  };

  Result<void> run(Change change) { return Ticket(*this, std::move(change)).wait(); }

  // Set once, before the first change: what each transaction begins with, and what is told when it
  // has become durable. Both are called on the committing thread.
  void around_each(Change prepare, std::function<void()> committed) {
    prepare_ = std::move(prepare);
    committed_ = std::move(committed);
  }

 private:
  using Group = std::vector<Ticket*>;

  void work(const std::stop_token& stop);
  void commit(const Group& group);
  Result<void> attempt(const Group& group);
  Result<void> run_alone(const Change& change);

  const std::unique_ptr<Connection> writer_;
  Change prepare_;
  std::function<void()> committed_;

  Mutex mutex_;
  ConditionVariable arrived_;
  Group queue_ GUARDED_BY(mutex_);
  std::jthread thread_;  // last: it uses the others
};

}  // namespace trainyard::s3
