// SPDX-License-Identifier: Apache-2.0
#include "s3/directory/sqlite.h"

#include <sqlite3.h>

namespace trainyard::s3 {
namespace {

Error sqlite_error(sqlite3* connection, int code) {
  const std::string message =
      std::string("the index: ") +
      (connection != nullptr ? sqlite3_errmsg(connection) : sqlite3_errstr(code));
  switch (code & 0xFF) {
    case SQLITE_FULL:
    case SQLITE_NOMEM:
      return Error{Code::kExhausted, message};
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return Error{Code::kCorrupt, message};
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:  // no file descriptor is left, most of the time
      return Error{Code::kUnavailable, message};
    default:  // also what the disk denies: kDenied would tell the client that it may not
      return Error{Code::kInternal, message};
  }
}

}  // namespace

Statement::~Statement() {
  if (handle_ != nullptr) {
    sqlite3_reset(handle_);
    sqlite3_clear_bindings(handle_);
  }
}

Statement& Statement::bind(int index, std::string_view bytes) {
  // An empty view may have no address, and a blob without an address would be NULL.
  const char* data = bytes.empty() ? "" : bytes.data();
  sqlite3_bind_blob64(handle_, index, data, bytes.size(), SQLITE_STATIC);
  return *this;
}

Statement& Statement::bind(int index, std::int64_t value) {
  sqlite3_bind_int64(handle_, index, value);
  return *this;
}

Result<bool> Statement::step() {
  const int code = sqlite3_step(handle_);
  if (code == SQLITE_ROW) {
    return true;
  }
  if (code == SQLITE_DONE) {
    return false;
  }
  return sqlite_error(connection_, code);
}

Result<void> Statement::run() {
  while (true) {
    YARD_TRY(const bool row, step());
    if (!row) {
      return {};
    }
  }
}

void Statement::reset() {
  sqlite3_reset(handle_);
}

std::string Statement::text(int column) const {
  const void* data = sqlite3_column_blob(handle_, column);
  const int size = sqlite3_column_bytes(handle_, column);
  return size == 0 ? std::string()
                   : std::string(static_cast<const char*>(data), static_cast<std::size_t>(size));
}

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(handle_, column);
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(handle_, column) == SQLITE_NULL;
}

Result<std::unique_ptr<Connection>> Connection::open(const Path& file) {
  sqlite3* handle = nullptr;
  const int code =
      sqlite3_open_v2(file.c_str(), &handle,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  std::unique_ptr<Connection> connection(new Connection(handle));
  if (code != SQLITE_OK) {
    return sqlite_error(handle, code).in("opening " + file.string());
  }
  sqlite3_extended_result_codes(handle, 1);
  // Only a checkpoint or a recovery can be in the way: there is one writing connection.
  sqlite3_busy_timeout(handle, 10'000);
  YARD_TRY(connection->execute(
      "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=OFF;"
      "PRAGMA cache_size=-4096; PRAGMA temp_store=MEMORY;"));
  return connection;
}

Connection::~Connection() {
  for (const auto& [sql, statement] : statements_) {
    sqlite3_finalize(statement);
  }
  sqlite3_close(handle_);
}

Result<void> Connection::execute(const char* sql) {
  const int code = sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) {
    return sqlite_error(handle_, code);
  }
  return {};
}

Result<Statement> Connection::prepare(const char* sql) {
  sqlite3_stmt*& statement = statements_[sql];
  if (statement == nullptr) {
    const int code =
        sqlite3_prepare_v3(handle_, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
    if (code != SQLITE_OK) {
      return sqlite_error(handle_, code);
    }
  }
  return Statement(handle_, statement);
}

std::int64_t Connection::changes() const {
  return sqlite3_changes64(handle_);
}

bool Connection::is_between_transactions() const {
  return sqlite3_get_autocommit(handle_) != 0;
}

}  // namespace trainyard::s3
