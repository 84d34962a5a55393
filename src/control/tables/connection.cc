// SPDX-License-Identifier: Apache-2.0
#include "control/tables/connection.h"

#include <optional>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mutex.h"
#include "base/thread.h"

namespace trainyard::control {
namespace {

constexpr std::size_t kIdleStatements = 64;
constexpr int kBusyTimeoutMs = 5000;

Code code_of(int sqlite_code) {
  switch (sqlite_code & 0xff) {
    case SQLITE_CONSTRAINT:
      return Code::kAlreadyExists;
    case SQLITE_FULL:
    case SQLITE_NOMEM:
      return Code::kExhausted;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return Code::kCorrupt;
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
      return Code::kDenied;
    case SQLITE_INTERRUPT:
      return Code::kCancelled;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_IOERR:
      return Code::kUnavailable;
    default:
      return Code::kInternal;
  }
}

Error error_of(sqlite3* handle, std::string_view what) {
  const int code = sqlite3_extended_errcode(handle);
  return {.code = code_of(code),
          .message = fmt::format("{}: {} (SQLite {})", what, sqlite3_errmsg(handle), code)};
}

// Interrupts a connection that is not done in time. A thread of its own, because SQLite 3.40 walks
// all trees of a check without asking its progress handler.
class Alarm {
 public:
  Alarm(sqlite3* handle, std::chrono::milliseconds time)
      : thread_(start_thread("db-check", [this, handle, time](const std::stop_token& stop) {
          std::unique_lock lock(mutex_);
          changed_.wait_for(lock, stop, time, [] { return false; });
          if (!stop.stop_requested()) {
            sqlite3_interrupt(handle);
          }
        })) {}

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  std::jthread thread_;  // last: ends before what it uses
};

Error damaged(const std::string& what) {
  return {.code = Code::kCorrupt, .message = "the database fails its check: " + what};
}

Result<void> expect_ok(Connection& connection, std::string_view pragma) {
  YARD_TRY(Statement statement, connection.prepare(pragma));
  YARD_TRY(statement.step());
  const std::string answer = statement.text(0);
  return answer == "ok" ? Result<void>() : Result<void>(damaged(answer));
}

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

int Statement::index_of(std::string_view name) const {
  const std::string parameter = fmt::format(":{}", name);
  const int index = sqlite3_bind_parameter_index(statement_.get(), parameter.c_str());
  YARD_CHECK(index > 0,
             fmt::format("no parameter {} in {}", parameter, sqlite3_sql(statement_.get())));
  return index;
}

Statement& Statement::bind(std::string_view name, std::int64_t value) {
  sqlite3_bind_int64(statement_.get(), index_of(name), value);
  return *this;
}

Statement& Statement::bind(std::string_view name, std::string_view value) {
  sqlite3_bind_text64(statement_.get(), index_of(name), value.data(), value.size(),
                      SQLITE_TRANSIENT, SQLITE_UTF8);
  return *this;
}

Statement& Statement::bind(std::string_view name, const std::optional<std::int64_t>& value) {
  if (value) {
    return bind(name, *value);
  }
  sqlite3_bind_null(statement_.get(), index_of(name));
  return *this;
}

Statement& Statement::bind_real(std::string_view name, double value) {
  sqlite3_bind_double(statement_.get(), index_of(name), value);
  return *this;
}

Statement& Statement::bind_bytes(std::string_view name, std::string_view value) {
  sqlite3_bind_blob64(statement_.get(), index_of(name), value.data(), value.size(),
                      SQLITE_TRANSIENT);
  return *this;
}

Result<bool> Statement::step() {
  switch (sqlite3_step(statement_.get())) {
    case SQLITE_ROW:
      return true;
    case SQLITE_DONE:
      return false;
    default:
      return error_of(sqlite3_db_handle(statement_.get()), sqlite3_sql(statement_.get()));
  }
}

Result<void> Statement::run() {
  YARD_TRY(step());
  return {};
}

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

std::string Statement::text(int column) const {
  const void* bytes = sqlite3_column_text(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return bytes == nullptr
             ? std::string()
             : std::string(static_cast<const char*>(bytes), static_cast<std::size_t>(size));
}

double Statement::real(int column) const {
  return sqlite3_column_double(statement_.get(), column);
}

std::string Statement::bytes(int column) const {
  const void* bytes = sqlite3_column_blob(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return bytes == nullptr
             ? std::string()
             : std::string(static_cast<const char*>(bytes), static_cast<std::size_t>(size));
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

void Connection::Closer::operator()(sqlite3* handle) const {
  sqlite3_close_v2(handle);
}

Result<Connection> Connection::open(const Path& path, bool read_only) {
  sqlite3* handle = nullptr;
  const int flags = (read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE) |
                    SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  const int code = sqlite3_open_v2(path.c_str(), &handle, flags, nullptr);
  Connection connection(handle);
  if (code != SQLITE_OK) {
    return error_of(handle, "opening " + path.string());
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
    return error_of(handle_.get(), sql);
  }
  return Statement(statement, cache_.get());
}

Result<void> Connection::execute(std::string_view sql) {
  const std::string script(sql);
  if (sqlite3_exec(handle_.get(), script.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    return error_of(handle_.get(), sql.substr(0, 200));
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

Result<bool> Connection::check(std::chrono::milliseconds time) {
  std::optional<Alarm> alarm;
  alarm.emplace(handle_.get(), time);
  const Result<void> outcome = expect_ok(*this, "PRAGMA quick_check(1)");
  alarm.reset();
  if (outcome) {
    return true;
  }
  if (outcome.error().code == Code::kCancelled) {
    return false;
  }
  return outcome.error();
}

Result<void> Connection::check_all() {
  YARD_TRY(expect_ok(*this, "PRAGMA integrity_check(1)"));
  YARD_TRY(Statement orphans, prepare("PRAGMA foreign_key_check"));
  YARD_TRY(const bool found, orphans.step());
  return found ? Result<void>(damaged("a row of " + orphans.text(0) + " refers to one of " +
                                      orphans.text(2) + " that is not there"))
               : Result<void>();
}

Result<void> Connection::copy_to(const Path& target) {
  // Made here first: SQLite would make it readable for everyone the umask allows.
  YARD_TRY(const Fd file, open_file(target, O_RDWR | O_CREAT | O_EXCL, 0600));
  const auto fill = [&]() -> Result<void> {
    YARD_TRY(Connection copy, Connection::open(target, false));
    sqlite3_backup* const backup =
        sqlite3_backup_init(copy.handle_.get(), "main", handle_.get(), "main");
    if (backup == nullptr) {
      return error_of(copy.handle_.get(), "copying to " + target.string());
    }
    // In one go: a copy in steps begins again whenever somebody has written in between.
    const int stepped = sqlite3_backup_step(backup, -1);
    sqlite3_backup_finish(backup);
    if (stepped != SQLITE_DONE) {
      return error_of(copy.handle_.get(), "copying to " + target.string());
    }
    // One file, whole by itself: readers of it leave nothing beside it.
    return copy.execute("PRAGMA journal_mode = DELETE");
  };
  Result<void> done = fill();
  if (done && ::fsync(file.get()) != 0) {
    done = errno_error("syncing " + target.string(), errno);
  }
  if (!done) {
    ::unlink(target.c_str());
  }
  return done;
}

}  // namespace trainyard::control
