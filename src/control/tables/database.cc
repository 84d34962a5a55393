// SPDX-License-Identifier: Apache-2.0
#include "control/tables/database.h"

#include <utility>

#include <fcntl.h>
#include <fmt/format.h>

#include "base/log.h"

namespace trainyard::control {
namespace {

constexpr std::size_t kIdleReaders = 8;
// Of the 0.3 s that a server may take to start.
constexpr std::chrono::milliseconds kCheckTime{100};

Result<std::int64_t> read_version(Connection& connection) {
  YARD_TRY(Statement statement, connection.prepare("PRAGMA user_version"));
  YARD_TRY(statement.step());
  return statement.integer(0);
}

// The way back, for whoever finds that the new program does not suit.
Result<void> keep_copy(Connection& connection, const Path& path, std::int64_t version) {
  const Path copy = fmt::format("{}.version-{}", path.string(), version);
  // Whole or not there: an older copy is of a migration that failed, and as good as ours.
  const Path draft = copy.string() + ".draft";
  std::error_code failed;
  if (std::filesystem::exists(copy, failed)) {
    return {};
  }
  std::filesystem::remove(draft, failed);
  if (auto copied = connection.copy_to(draft); !copied) {
    return copied.error().in("copying the database before its migration");
  }
  std::filesystem::rename(draft, copy, failed);
  if (failed) {
    return errno_error("naming " + copy.string(), failed.value());
  }
  YARD_TRY(sync_directory(path.parent_path()));
  log_info(fmt::format(
      "the database has version {} and gets a newer one; as it was it stays in {}, which you may "
      "remove when all is well",
      version, copy.string()));
  return {};
}

Result<void> check(Connection& connection, const Path& path) {
  YARD_TRY(const bool is_whole, connection.check(kCheckTime));
  if (!is_whole) {
    log_info(
        fmt::format("{} is large: its check at start ended after {} ms; `trainyard check` "
                    "reads all of it",
                    path.string(), kCheckTime.count()));
  }
  return {};
}

Result<void> migrate(Connection& connection, const Path& path,
                     std::span<const std::string_view> migrations) {
  YARD_TRY(const std::int64_t version, read_version(connection));
  if (version > static_cast<std::int64_t>(migrations.size())) {
    return Error{.code = Code::kUnimplemented,
                 .message = fmt::format("the database has version {}, this program knows {}: it "
                                        "was written by a newer one",
                                        version, migrations.size())};
  }
  if (version > 0 && version < static_cast<std::int64_t>(migrations.size())) {
    YARD_TRY(keep_copy(connection, path, version));
  }
  for (auto next = static_cast<std::size_t>(version); next < migrations.size(); ++next) {
    const std::string script = fmt::format("BEGIN IMMEDIATE; {}; PRAGMA user_version = {}; COMMIT",
                                           migrations[next], next + 1);
    if (auto done = connection.execute(script); !done) {
      return done.error().in(fmt::format("migrating the database to version {}", next + 1));
    }
  }
  return {};
}

}  // namespace

Database::Database(Path path, std::unique_ptr<Connection> writer)
    : path_(std::move(path)),
      writer_(std::move(writer)),
      commits_(std::make_unique<CommitQueue>(*writer_)) {}

Result<std::unique_ptr<Database>> Database::open(const Path& path,
                                                 std::span<const std::string_view> migrations) {
  // Made here first, because SQLite would make it readable for everyone the umask allows.
  YARD_TRY(open_file(path, O_RDWR | O_CREAT, 0600));
  YARD_TRY(Connection writer, Connection::open(path, false));
  YARD_TRY(writer.execute("PRAGMA journal_mode = WAL"));
  YARD_TRY(writer.execute("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON"));
  YARD_TRY(check(writer, path));
  YARD_TRY(migrate(writer, path, migrations));
  // The names of the file and of its log, without which their contents would be lost.
  YARD_TRY(sync_directory(path.parent_path()));
  return std::unique_ptr<Database>(
      new Database(path, std::make_unique<Connection>(std::move(writer))));
}

Result<Connection> Database::take_reader() {
  {
    const MutexLock lock(mutex_);
    if (!readers_.empty()) {
      Connection reader = std::move(readers_.back());
      readers_.pop_back();
      return reader;
    }
  }
  return Connection::open(path_, true);
}

void Database::give_back(Connection connection) {
  const MutexLock lock(mutex_);
  if (readers_.size() < kIdleReaders) {
    readers_.push_back(std::move(connection));
  }
}

}  // namespace trainyard::control
