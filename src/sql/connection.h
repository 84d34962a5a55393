// SPDX-License-Identifier: Apache-2.0
// One connection to an SQLite file: a thin layer over the C interface, used by one thread at a
// time. Who wants a database that is created, migrated and written by many opens a Database; who
// looks at somebody else's file opens a connection. Failures become Errors: a value that must be
// unique and is there kAlreadyExists, a full disk kExhausted, a broken file kCorrupt, what may pass
// kUnavailable, everything else kInternal, also a file that may not be written.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/file.h"
#include "base/result.h"
#include "sql/statement.h"

struct sqlite3;

namespace trainyard::sql {

enum class Access { kRead, kWrite };

class Connection {
 public:
  // The file must be there; one that cannot be opened is kUnavailable.
  static Result<Connection> open(const Path& file, Access access);

  Result<Statement> prepare(std::string_view sql);
  Result<void> execute(std::string_view script);  // one or more statements without values
  std::int64_t changes() const;                   // rows that the last statement changed
  std::int64_t last_row() const;                  // rowid of the last insert
  bool in_transaction() const;                    // some failures end it without being asked

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

}  // namespace trainyard::sql
