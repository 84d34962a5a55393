// SPDX-License-Identifier: Apache-2.0
// A prepared statement in use: values in, rows out. Connection::prepare() gives one; when it goes
// it is reset and kept prepared for the next use.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/result.h"

struct sqlite3_stmt;

namespace trainyard::sql {

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
  std::unordered_map<std::string_view, sqlite3_stmt*> idle_;  // each holds the text that is its key
};

// Which parameter of a statement: ":name", given without the colon, or "?1", counted from 1.
class Parameter {
 public:
  // NOLINTBEGIN(google-explicit-constructor): a parameter is written as its name or number.
  Parameter(int number) : number_(number) {}
  Parameter(std::string_view name) : name_(name) {}
  Parameter(const char* name) : name_(name) {}
  // NOLINTEND(google-explicit-constructor)

 private:
  friend class Statement;
  int number_ = 0;  // 0: by its name
  std::string_view name_;
};

// Lives shorter than its connection, and is used by the same thread.
class Statement {
 public:
  // Values are copied. A name that the statement lacks is a bug and aborts; any other failure is
  // that of the next step().
  Statement& bind(Parameter parameter, std::int64_t value);
  Statement& bind(Parameter parameter, const std::optional<std::int64_t>& value);
  Statement& bind_real(Parameter parameter, double value);  // not a number is stored as NULL
  Statement& bind_text(Parameter parameter, std::string_view text);
  // Bytes are compared one by one, and are never equal to a text.
  Statement& bind_bytes(Parameter parameter, std::string_view bytes);

  Result<bool> step();  // true: a row is there to be read
  Result<void> run();   // to its end, whatever rows it gives
  void reset();         // to its begin; bound values stay until they are replaced

  // Columns count from 0 and are there until the next step.
  std::int64_t integer(int column) const;
  double real(int column) const;
  std::string text(int column) const;  // or bytes
  bool is_null(int column) const;

 private:
  friend class Connection;
  struct Returner {
    StatementCache* cache;  // of the connection
    void operator()(sqlite3_stmt* statement) const { cache->give_back(statement); }
  };
  Statement(sqlite3_stmt* statement, StatementCache* cache) : statement_(statement, {cache}) {}
  int index_of(const Parameter& parameter) const;
  Statement& bound(int code);

  std::unique_ptr<sqlite3_stmt, Returner> statement_;
  std::optional<Error> not_bound_;
};

}  // namespace trainyard::sql
