// SPDX-License-Identifier: Apache-2.0
#include "sql/migrate.h"

#include <filesystem>

#include <fmt/format.h>

#include "base/log.h"
#include "sql/transaction.h"

namespace trainyard::sql {
namespace {

Result<std::int64_t> read_version(Connection& connection) {
  YARD_TRY(Statement statement, connection.prepare("PRAGMA user_version"));
  YARD_TRY(statement.step());
  return statement.integer(0);
}

// The way back, for whoever finds that the new program does not suit.
Result<void> keep_copy(Connection& connection, const Path& file, std::int64_t version) {
  const Path copy = fmt::format("{}.version-{}", file.string(), version);
  // Whole or not there: an older copy is of a migration that failed, and as good as ours.
  const Path draft = copy.string() + ".draft";
  std::error_code failed;
  if (std::filesystem::exists(copy, failed)) {
    return {};
  }
  std::filesystem::remove(draft, failed);
  if (auto copied = connection.copy_to(draft); !copied) {
    return copied.error().in("copying the database before its migration");
  }
  std::filesystem::rename(draft, copy, failed);
  if (failed) {
    return errno_error("naming " + copy.string(), failed.value());
  }
  YARD_TRY(sync_directory(file.parent_path()));
  log_info(fmt::format(
      "the database has version {} and gets a newer one; as it was it stays in {}, which you may "
      "remove when all is well",
      version, copy.string()));
  return {};
}

Result<void> apply(Connection& connection, std::string_view migration, std::size_t version) {
  YARD_TRY(Transaction transaction, Transaction::begin(connection));
  YARD_TRY(connection.execute(migration));
  YARD_TRY(connection.execute(fmt::format("PRAGMA user_version = {}", version)));
  return transaction.commit();
}

}  // namespace

Result<void> migrate(Connection& connection, const Path& file,
                     std::span<const std::string_view> migrations) {
  YARD_TRY(const std::int64_t version, read_version(connection));
  if (version > static_cast<std::int64_t>(migrations.size())) {
    return Error{.code = Code::kUnimplemented,
                 .message = fmt::format("{} has version {}, this program knows {}: it was written "
                                        "by a newer one",
                                        file.string(), version, migrations.size())};
  }
  if (version > 0 && version < static_cast<std::int64_t>(migrations.size())) {
    YARD_TRY(keep_copy(connection, file, version));
  }
  for (auto next = static_cast<std::size_t>(version); next < migrations.size(); ++next) {
    if (auto done = apply(connection, migrations[next], next + 1); !done) {
      return done.error().in(fmt::format("migrating {} to version {}", file.string(), next + 1));
    }
  }
  return {};
}

}  // namespace trainyard::sql
