// SPDX-License-Identifier: Apache-2.0
#include "sql/connection.h"

#include <sqlite3.h>

#include "sql/internal/error.h"

namespace trainyard::sql {
namespace {

// Only a checkpoint or a recovery can be in the way: there is one writing connection.
constexpr int kBusyTimeoutMs = 10'000;

}  // namespace

void Connection::Closer::operator()(sqlite3* handle) const {
  sqlite3_close_v2(handle);
}

Result<Connection> Connection::open(const Path& file, Access access) {
  sqlite3* handle = nullptr;
  const int flags = (access == Access::kRead ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE) |
                    SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  const int code = sqlite3_open_v2(file.c_str(), &handle, flags, nullptr);
  Connection connection(handle);
  if (code != SQLITE_OK) {
    return error_of(handle).in("opening " + file.string());
  }
  sqlite3_busy_timeout(handle, kBusyTimeoutMs);
  return connection;
}

Result<Statement> Connection::prepare(std::string_view sql) {
  if (sqlite3_stmt* const kept = cache_->take(sql)) {
    return Statement(kept, cache_.get());
  }
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v3(handle_.get(), sql.data(), static_cast<int>(sql.size()),
                         SQLITE_PREPARE_PERSISTENT, &statement, nullptr) != SQLITE_OK) {
    return error_of(handle_.get());
  }
  return Statement(statement, cache_.get());
}

Result<void> Connection::execute(std::string_view script) {
  const std::string text(script);
  if (sqlite3_exec(handle_.get(), text.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    return error_of(handle_.get());
  }
  return {};
}

std::int64_t Connection::changes() const {
  return sqlite3_changes64(handle_.get());
}

std::int64_t Connection::last_row() const {
  return sqlite3_last_insert_rowid(handle_.get());
}

bool Connection::in_transaction() const {
  return sqlite3_get_autocommit(handle_.get()) == 0;
}

}  // namespace trainyard::sql
