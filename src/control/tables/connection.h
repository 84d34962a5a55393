// SPDX-License-Identifier: Apache-2.0
// A thin layer over SQLite's C interface: one connection, and statements with parameters bound by
// name. Statements that are done with are kept prepared for the next use. The *_table files hold
// every SQL statement of this module; database.h says which connection they get. A connection is
// used by one thread at a time. Failures become Errors: a full disk is kExhausted, a broken file
// kCorrupt, a violated constraint kAlreadyExists.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace trainyard::control {

// The prepared statements of one connection that nobody is using, by their text.
class StatementCache {
 public:
  StatementCache() = default;
  StatementCache(const StatementCache&) = delete;
  StatementCache& operator=(const StatementCache&) = delete;
  ~StatementCache();

  sqlite3_stmt* take(std::string_view sql);  // null when there is none
  void give_back(sqlite3_stmt* statement);

 private:
  std::map<std::string, sqlite3_stmt*, std::less<>> idle_;
};

// One prepared statement; lives shorter than its connection. Columns count from 0.
class Statement {
 public:
  // `name` is given without the colon. A name that the statement lacks is a bug and aborts.
  Statement& bind(std::string_view name, std::int64_t value);
  Statement& bind(std::string_view name, std::string_view value);
  Statement& bind(std::string_view name, const char* value) = delete;  // would convert to bool
  Statement& bind(std::string_view name, const std::optional<std::int64_t>& value);
  Statement& bind_real(std::string_view name, double value);  // not a number is stored as NULL
  Statement& bind_bytes(std::string_view name, std::string_view value);

  Result<bool> step();  // true: a row is there to be read
  Result<void> run();   // for statements without rows

  std::int64_t integer(int column) const;
  double real(int column) const;
  std::string text(int column) const;
  std::string bytes(int column) const;
  bool is_null(int column) const;

 private:
  friend class Connection;
  struct Returner {
    StatementCache* cache;  // of the connection
    void operator()(sqlite3_stmt* statement) const { cache->give_back(statement); }
  };
  Statement(sqlite3_stmt* statement, StatementCache* cache) : statement_(statement, {cache}) {}
  int index_of(std::string_view name) const;

  std::unique_ptr<sqlite3_stmt, Returner> statement_;
};

class Connection {
 public:
  static Result<Connection> open(const Path& path, bool read_only);

  Result<Statement> prepare(std::string_view sql);
  Result<void> execute(std::string_view sql);  // one or more statements without parameters
  std::int64_t changes() const;                // rows that the last statement changed
  std::int64_t last_row() const;               // rowid of the last insert
  bool in_transaction() const;                 // some failures end it without being asked

  // SQLite's own check of the file (PRAGMA quick_check: everything but whether indices match their
  // tables), for at most `time`. True: all of it was read. kCorrupt says what is broken.
  Result<bool> check(std::chrono::milliseconds time);
  // The same with indices and foreign keys, however long it takes.
  Result<void> check_all();
  // A whole and synced copy at `target`, which must not exist (kAlreadyExists). Others may write
  // meanwhile: the copy is of one moment.
  Result<void> copy_to(const Path& target);

 private:
  struct Closer {
    void operator()(sqlite3* handle) const;
  };
  explicit Connection(sqlite3* handle)
      : handle_(handle), cache_(std::make_unique<StatementCache>()) {}

  std::unique_ptr<sqlite3, Closer> handle_;
  std::unique_ptr<StatementCache> cache_;  // statements know where it is, also when this moves
};

}  // namespace trainyard::control
