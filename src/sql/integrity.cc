// SPDX-License-Identifier: Apache-2.0
// The checks of connection.h.
#include <chrono>
#include <optional>
#include <string>

#include <sqlite3.h>

#include "base/mutex.h"
#include "base/thread.h"
#include "sql/connection.h"

namespace trainyard::sql {
namespace {

constexpr std::chrono::milliseconds kAgain{1};

// Interrupts a connection that is not done in time, again and again, because an interruption before
// its statement has begun is lost. A thread of its own, because SQLite 3.40 walks all trees of a
// check without asking its progress handler.
class Alarm {
 public:
  Alarm(sqlite3* handle, std::chrono::milliseconds time)
      : thread_(start_thread("db-check", [this, handle, time](const std::stop_token& stop) {
          std::unique_lock lock(mutex_);
          changed_.wait_for(lock, stop, time, [] { return false; });
          while (!stop.stop_requested()) {
            sqlite3_interrupt(handle);
            changed_.wait_for(lock, stop, kAgain, [] { return false; });
          }
        })) {}

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  std::jthread thread_;  // last: ends before what it uses
};

Error damaged(const std::string& what) {
  return {.code = Code::kCorrupt, .message = "the database fails its check: " + what};
}

Result<void> expect_ok(Connection& connection, std::string_view pragma) {
  YARD_TRY(Statement statement, connection.prepare(pragma));
  YARD_TRY(statement.step());
  const std::string answer = statement.text(0);
  return answer == "ok" ? Result<void>() : Result<void>(damaged(answer));
}

}  // namespace

Result<bool> Connection::check(std::chrono::milliseconds time) {
  std::optional<Alarm> alarm;
  alarm.emplace(handle_.get(), time);
  const Result<void> outcome = expect_ok(*this, "PRAGMA quick_check(1)");
  alarm.reset();
  if (outcome) {
    return true;
  }
  if (outcome.error().code == Code::kCancelled) {
    return false;
  }
  return outcome.error();
}

Result<void> Connection::check_all() {
  YARD_TRY(expect_ok(*this, "PRAGMA integrity_check(1)"));
  YARD_TRY(Statement orphans, prepare("PRAGMA foreign_key_check"));
  YARD_TRY(const bool found, orphans.step());
  return found ? Result<void>(damaged("a row of " + orphans.text(0) + " refers to one of " +
                                      orphans.text(2) + " that is not there"))
               : Result<void>();
}

}  // namespace trainyard::sql
