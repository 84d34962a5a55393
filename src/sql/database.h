// SPDX-License-Identifier: Apache-2.0
// A database of ours: opened, checked and migrated; written in transactions that writers share
// (group_commit.h), read without waiting for them. There is exactly one writing connection (SQLite
// 3.40 has a rare WAL fault with several); readers have others. What write() has answered is on the
// disk (WAL, synchronous=FULL).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/mutex.h"
#include "base/result.h"
#include "sql/connection.h"
#include "sql/group_commit.h"

namespace trainyard::sql {

struct DatabaseOptions {
  AroundEach around = {};
  int cache_kib = 2'000;  // pages that each connection keeps in memory
};

class Database {
 public:
  // Creates the file (0600) when it is missing and brings it to the last of `migrations`
  // (migrate.h). kCorrupt when the file fails its check, which reads for a fraction of a second
  // only; kUnimplemented when a newer program wrote it.
  static Result<std::unique_ptr<Database>> open(const Path& file,
                                                std::span<const std::string_view> migrations,
                                                DatabaseOptions options = {});

  // Runs `body(connection)` as one transaction, or a part of one: kept when it succeeds, else
  // undone. Any thread but the committing one; `body` is as a Change.
  template <typename Body>
  auto write(Body&& body) -> std::invoke_result_t<Body, Connection&> {
    using Answer = std::invoke_result_t<Body, Connection&>;
    std::optional<Answer> answer;
    const Result<void> stored = writer_->run([&](Connection& connection) -> Result<void> {
      answer.emplace(body(connection));
      return *answer ? Result<void>() : Result<void>(answer->error());
    });
    if (!stored) {
      return stored.error();
    }
    return *std::move(answer);  // NOLINT(bugprone-unchecked-optional-access): run() has called it
  }

  // The same for who has other things to do until the change is on the disk.
  GroupCommit::Ticket hand_in(Change change) {
    return GroupCommit::Ticket(*writer_, std::move(change));
  }

  // A reading connection for one thread, which sees one moment per statement. Goes before the
  // database does.
  class Reader {
   public:
    Reader(Database& database, Connection connection)
        : database_(&database), connection_(std::move(connection)) {}
    Reader(Reader&& other) noexcept
        : database_(std::exchange(other.database_, nullptr)),
          connection_(std::move(other.connection_)) {}
    ~Reader() {
      if (database_ != nullptr) {
        database_->give_back(std::move(connection_));
      }
    }
    Connection& operator*() { return connection_; }
    Connection* operator->() { return &connection_; }

   private:
    Database* database_;  // null when it was moved from
    Connection connection_;
  };
  Result<Reader> reader();

  // Runs `body(connection)` on a reading connection. Any thread, many at once.
  template <typename Body>
  auto read(Body&& body) -> std::invoke_result_t<Body, Connection&> {
    YARD_TRY(Reader connection, reader());
    return body(*connection);
  }

  // For tests of crashes; see GroupCommit. Set before the first write().
  using Moment = GroupCommit::Moment;
  void interrupt_by(GroupCommit::Interruption interruption) {
    writer_->interrupt_by(std::move(interruption));
  }

 private:
  Database(Path file, Connection writer, DatabaseOptions options);
  void give_back(Connection connection);

  const Path file_;
  const int cache_kib_;
  std::unique_ptr<GroupCommit> writer_;
  Mutex mutex_;
  // Idle. They go before the writer: the last one to close tidies up, and readers may not.
  std::vector<Connection> readers_ GUARDED_BY(mutex_);
};

}  // namespace trainyard::sql
