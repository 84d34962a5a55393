// SPDX-License-Identifier: Apache-2.0
#include "sql/transaction.h"

#include "base/log.h"

namespace trainyard::sql {
namespace {

// Prepared once, unlike Connection::execute().
Result<void> run(Connection& connection, std::string_view sql) {
  YARD_TRY(Statement statement, connection.prepare(sql));
  return statement.run();
}

}  // namespace

Result<Transaction> Transaction::begin(Connection& connection) {
  YARD_TRY(run(connection, "BEGIN IMMEDIATE"));
  return Transaction(connection);
}

Transaction::~Transaction() {
  if (connection_ == nullptr || !connection_->in_transaction()) {
    return;  // committed, or SQLite has undone it already
  }
  if (auto done = run(*connection_, "ROLLBACK"); !done) {
    log_error("a transaction cannot be rolled back: " + done.error().message);
  }
}

Result<void> Transaction::run_part(const std::function<Result<void>()>& body,
                                   Result<void>& outcome) {
  YARD_TRY(run(*connection_, "SAVEPOINT part"));
  outcome = body();
  if (!connection_->in_transaction()) {
    return outcome ? Error{Code::kInternal, "the transaction has ended"} : outcome;
  }
  if (!outcome) {
    YARD_TRY(run(*connection_, "ROLLBACK TO part"));
  }
  return run(*connection_, "RELEASE part");
}

Result<void> Transaction::commit() {
  return run(*connection_, "COMMIT");
}

}  // namespace trainyard::sql
