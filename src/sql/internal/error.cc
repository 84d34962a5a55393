// SPDX-License-Identifier: Apache-2.0
#include "sql/internal/error.h"

#include <filesystem>

#include <fmt/format.h>
#include <sqlite3.h>

namespace trainyard::sql {
namespace {

// A handle is null when there was no memory for it.
std::string name_of_file(sqlite3* handle) {
  const char* const path = handle == nullptr ? nullptr : sqlite3_db_filename(handle, "main");
  return path == nullptr ? "the database" : std::filesystem::path(path).filename().string();
}

}  // namespace

Code code_of(int sqlite_code) {
  switch (sqlite_code) {
    case SQLITE_CONSTRAINT_PRIMARYKEY:
    case SQLITE_CONSTRAINT_ROWID:
    case SQLITE_CONSTRAINT_UNIQUE:
      return Code::kAlreadyExists;
    default:
      break;
  }
  switch (sqlite_code & 0xFF) {
    case SQLITE_FULL:
    case SQLITE_NOMEM:
      return Code::kExhausted;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return Code::kCorrupt;
    case SQLITE_INTERRUPT:
      return Code::kCancelled;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:  // no file descriptor is left, most of the time
      return Code::kUnavailable;
    default:  // SQLITE_PERM, SQLITE_READONLY, and our own mistakes
      return Code::kInternal;
  }
}

Error error_of(sqlite3* handle) {
  const int code = sqlite3_extended_errcode(handle);
  return {.code = code_of(code),
          .message = fmt::format("{}: {} (SQLite {})", name_of_file(handle), sqlite3_errmsg(handle),
                                 code)};
}

}  // namespace trainyard::sql
