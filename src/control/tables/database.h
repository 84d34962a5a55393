// SPDX-License-Identifier: Apache-2.0
// The database of the control plane: opened, checked and migrated; written in transactions that
// writers share (commit_queue.h), read without waiting for them. The *_table files hold every SQL
// statement of this module and are its only callers. There is exactly one writing connection
// (SQLite 3.40 has a rare WAL fault with several); readers have others. What write() has answered
// is on disk (WAL, synchronous=FULL).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/file.h"
#include "base/mutex.h"
#include "base/result.h"
#include "control/tables/commit_queue.h"
#include "control/tables/connection.h"

namespace trainyard::control {

class Database {
 public:
  // Creates the file (0600) when it is missing and brings it to the last of `migrations`, which
  // are scripts numbered from 1 (SQLite's user_version). A file that has something to lose is
  // copied to <path>.version-<n> first. kCorrupt when the file fails its check, which reads for a
  // fraction of a second only; kUnimplemented when a newer program wrote it.
  static Result<std::unique_ptr<Database>> open(const Path& path,
                                                std::span<const std::string_view> migrations);

  // Runs `body(connection)` as one transaction: kept when it succeeds, else undone. Any thread;
  // bodies run one at a time, perhaps twice and in another writer's thread (commit_queue.h). `body`
  // only runs statements: it calls nothing that may block.
  template <typename Body>
  auto write(Body&& body) -> std::invoke_result_t<Body, Connection&> {
    using Answer = std::invoke_result_t<Body, Connection&>;
    std::optional<Answer> answer;
    const Result<void> stored = commits_->write([&](Connection& connection) -> Result<void> {
      answer.emplace(body(connection));
      return *answer ? Result<void>() : Result<void>(answer->error());
    });
    if (!stored) {
      return stored.error();
    }
    return *std::move(answer);
  }

  // For tests of crashes: asked at both moments of each transaction. An error ends write() there,
  // as losing power would. Set before the first write().
  using Moment = CommitQueue::Moment;
  void interrupt_by(CommitQueue::Interruption interruption) {
    commits_->interrupt_by(std::move(interruption));
  }

  // Runs `body(connection)` on a reading connection, which sees one moment per statement. Any
  // thread, many at once.
  template <typename Body>
  auto read(Body&& body) -> std::invoke_result_t<Body, Connection&> {
    YARD_TRY(Connection connection, take_reader());
    auto answer = body(connection);
    give_back(std::move(connection));
    return answer;
  }

 private:
  Database(Path path, std::unique_ptr<Connection> writer);
  Result<Connection> take_reader();
  void give_back(Connection connection);

  Path path_;
  std::unique_ptr<Connection> writer_;  // where commits_ knows it to be
  std::unique_ptr<CommitQueue> commits_;
  Mutex mutex_;
  std::vector<Connection> readers_ GUARDED_BY(mutex_);  // idle
};

}  // namespace trainyard::control
