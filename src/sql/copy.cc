// SPDX-License-Identifier: Apache-2.0
// The copy of connection.h.
#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include "sql/connection.h"
#include "sql/internal/error.h"

namespace trainyard::sql {

Result<void> Connection::copy_to(const Path& target) {
  // Made here first: SQLite would make it readable for everyone the umask allows.
  YARD_TRY(const Fd file, open_file(target, O_RDWR | O_CREAT | O_EXCL, 0600));
  const auto fill = [&]() -> Result<void> {
    YARD_TRY(Connection copy, Connection::open(target, Access::kWrite));
    sqlite3* const to = copy.handle_.get();
    sqlite3_backup* const backup = sqlite3_backup_init(to, "main", handle_.get(), "main");
    if (backup == nullptr) {
      return error_of(to).in("copying to " + target.string());
    }
    // In one go: a copy in steps begins again whenever somebody has written in between.
    const int stepped = sqlite3_backup_step(backup, -1);
    sqlite3_backup_finish(backup);
    if (stepped != SQLITE_DONE) {
      return error_of(to).in("copying to " + target.string());
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

}  // namespace trainyard::sql
