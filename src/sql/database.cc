// SPDX-License-Identifier: Apache-2.0
#include "sql/database.h"

#include <chrono>

#include <fcntl.h>
#include <fmt/format.h>

#include "base/log.h"
#include "sql/migrate.h"

namespace trainyard::sql {
namespace {

constexpr std::size_t kIdleReaders = 8;
// Of the 0.3 s that a server, which has two databases, may take to start.
constexpr std::chrono::milliseconds kCheckTime{50};

// Those of a connection; the file does not keep them.
Result<void> set_up(Connection& connection, int cache_kib) {
  return connection.execute(fmt::format(
      "PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -{}", cache_kib));
}

Result<void> check(Connection& connection, const Path& file) {
  YARD_TRY(const bool is_whole, connection.check(kCheckTime));
  if (!is_whole) {
    log_info(
        fmt::format("{} is large: its check at start ended after {} ms; `trainyard check` "
                    "reads all of it",
                    file.string(), kCheckTime.count()));
  }
  return {};
}

}  // namespace

Database::Database(Path file, Connection writer, DatabaseOptions options)
    : file_(std::move(file)),
      cache_kib_(options.cache_kib),
      writer_(std::make_unique<GroupCommit>(std::move(writer), std::move(options.around))) {}

Result<std::unique_ptr<Database>> Database::open(const Path& file,
                                                 std::span<const std::string_view> migrations,
                                                 DatabaseOptions options) {
  // Made here first, because SQLite would make it readable for everyone the umask allows.
  YARD_TRY(open_file(file, O_RDWR | O_CREAT, 0600));
  YARD_TRY(Connection writer, Connection::open(file, Access::kWrite));
  YARD_TRY(writer.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL"));
  YARD_TRY(set_up(writer, options.cache_kib));
  YARD_TRY(check(writer, file));
  YARD_TRY(migrate(writer, file, migrations));
  // The names of the file and of its log, without which their contents would be lost.
  YARD_TRY(sync_directory(file.parent_path()));
  return std::unique_ptr<Database>(new Database(file, std::move(writer), std::move(options)));
}

Result<Database::Reader> Database::reader() {
  {
    const MutexLock lock(mutex_);
    if (!readers_.empty()) {
      Reader reader(*this, std::move(readers_.back()));
      readers_.pop_back();
      return reader;
    }
  }
  YARD_TRY(Connection connection, Connection::open(file_, Access::kRead));
  YARD_TRY(set_up(connection, cache_kib_));
  return Reader(*this, std::move(connection));
}

void Database::give_back(Connection connection) {
  const MutexLock lock(mutex_);
  if (readers_.size() < kIdleReaders) {
    readers_.push_back(std::move(connection));
  }
}

}  // namespace trainyard::sql
