// SPDX-License-Identifier: Apache-2.0
// One SQLite connection and its prepared statements, for index.cc only. A connection is used by one
// thread at a time. Failures become Errors: a full disk is kExhausted, a broken file kCorrupt,
// what may pass kUnavailable, a disk that may not be written kInternal.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/file.h"
#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace trainyard::s3 {

// A use of a prepared statement; reset when it goes. Columns are valid until the next step.
class Statement {
 public:
  Statement(sqlite3* connection, sqlite3_stmt* handle) : connection_(connection), handle_(handle) {}
  Statement(Statement&& other) noexcept
      : connection_(other.connection_), handle_(std::exchange(other.handle_, nullptr)) {}
  ~Statement();

  // Numbered from 1. Text is bound as a blob (compared byte by byte) and borrowed until the
  // statement goes.
  Statement& bind(int index, std::string_view bytes);
  Statement& bind(int index, std::int64_t value);

  Result<bool> step();  // true: a row
  Result<void> run();   // to its end
  // Ready for other values; the bound ones are kept until replaced.
  void reset();

  std::string text(int column) const;
  std::int64_t integer(int column) const;
  bool is_null(int column) const;

 private:
  sqlite3* connection_;
  sqlite3_stmt* handle_;
};

class Connection {
 public:
  static Result<std::unique_ptr<Connection>> open(const Path& file);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  Result<void> execute(const char* sql);  // no values, no rows; may hold several statements
  // `sql` is a literal: its address is the key of the cache. A statement is not used twice at once.
  Result<Statement> prepare(const char* sql);
  std::int64_t changes() const;  // rows that the last statement touched
  // Some failures end a transaction by themselves.
  bool is_between_transactions() const;

 private:
  explicit Connection(sqlite3* handle) : handle_(handle) {}

  sqlite3* handle_;
  std::unordered_map<const char*, sqlite3_stmt*> statements_;
};

}  // namespace trainyard::s3
