// SPDX-License-Identifier: Apache-2.0
#include "sql/statement.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include "base/check.h"
#include "sql/internal/error.h"

namespace trainyard::sql {
namespace {

constexpr std::size_t kIdleStatements = 64;

}  // namespace

StatementCache::~StatementCache() {
  for (const auto& [sql, statement] : idle_) {
    sqlite3_finalize(statement);
  }
}

sqlite3_stmt* StatementCache::take(std::string_view sql) {
  const auto found = idle_.find(sql);
  if (found == idle_.end()) {
    return nullptr;
  }
  sqlite3_stmt* const statement = found->second;
  idle_.erase(found);
  return statement;
}

void StatementCache::give_back(sqlite3_stmt* statement) {
  // Reset at once: one that stands on a row would keep its snapshot, and the log would grow.
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
  const bool is_kept =
      idle_.size() < kIdleStatements && idle_.try_emplace(sqlite3_sql(statement), statement).second;
  if (!is_kept) {
    sqlite3_finalize(statement);
  }
}

int Statement::index_of(const Parameter& parameter) const {
  if (parameter.number_ > 0) {
    return parameter.number_;
  }
  const std::string name = ":" + std::string(parameter.name_);
  const int index = sqlite3_bind_parameter_index(statement_.get(), name.c_str());
  YARD_CHECK(index > 0, fmt::format("no parameter {} in {}", name, sqlite3_sql(statement_.get())));
  return index;
}

Statement& Statement::bound(int code) {
  if (code != SQLITE_OK && !not_bound_) {
    not_bound_ = error_of(sqlite3_db_handle(statement_.get()));
  }
  return *this;
}

Statement& Statement::bind(Parameter parameter, std::int64_t value) {
  return bound(sqlite3_bind_int64(statement_.get(), index_of(parameter), value));
}

Statement& Statement::bind_text(Parameter parameter, std::string_view text) {
  // An empty view may have no address, and a value without an address would be NULL.
  const char* const data = text.empty() ? "" : text.data();
  return bound(sqlite3_bind_text64(statement_.get(), index_of(parameter), data, text.size(),
                                   SQLITE_TRANSIENT, SQLITE_UTF8));
}

Statement& Statement::bind(Parameter parameter, const std::optional<std::int64_t>& value) {
  return value ? bind(parameter, *value)
               : bound(sqlite3_bind_null(statement_.get(), index_of(parameter)));
}

Statement& Statement::bind_real(Parameter parameter, double value) {
  return bound(sqlite3_bind_double(statement_.get(), index_of(parameter), value));
}

Statement& Statement::bind_bytes(Parameter parameter, std::string_view bytes) {
  const char* const data = bytes.empty() ? "" : bytes.data();
  return bound(sqlite3_bind_blob64(statement_.get(), index_of(parameter), data, bytes.size(),
                                   SQLITE_TRANSIENT));
}

Result<bool> Statement::step() {
  if (not_bound_) {
    return *not_bound_;
  }
  switch (sqlite3_step(statement_.get())) {
    case SQLITE_ROW:
      return true;
    case SQLITE_DONE:
      return false;
    default:
      return error_of(sqlite3_db_handle(statement_.get()));
  }
}

Result<void> Statement::run() {
  while (true) {
    YARD_TRY(const bool found, step());
    if (!found) {
      return {};
    }
  }
}

void Statement::reset() {
  sqlite3_reset(statement_.get());
}

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

double Statement::real(int column) const {
  return sqlite3_column_double(statement_.get(), column);
}

std::string Statement::text(int column) const {
  const void* const data = sqlite3_column_blob(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return size == 0 ? std::string()
                   : std::string(static_cast<const char*>(data), static_cast<std::size_t>(size));
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

}  // namespace trainyard::sql
