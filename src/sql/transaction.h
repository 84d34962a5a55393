// SPDX-License-Identifier: Apache-2.0
// One writing transaction of a connection, undone unless it is committed.
#pragma once

#include <functional>
#include <utility>

#include "base/result.h"
#include "sql/connection.h"

namespace trainyard::sql {

class Transaction {
 public:
  // Takes the right to write at once. The connection stays where it is meanwhile.
  static Result<Transaction> begin(Connection& connection);
  Transaction(Transaction&& other) noexcept
      : connection_(std::exchange(other.connection_, nullptr)) {}
  ~Transaction();

  // Runs `body` as a part that is undone alone when it fails; its result goes to `outcome`. An
  // error is one of the whole: nothing of it can be kept. SQLite ends it when the disk is full, or
  // a read of it fails.
  Result<void> run_part(const std::function<Result<void>()>& body, Result<void>& outcome);
  // What was committed is on the disk (of a Database).
  Result<void> commit();

 private:
  explicit Transaction(Connection& connection) : connection_(&connection) {}

  Connection* connection_;
};

}  // namespace trainyard::sql
