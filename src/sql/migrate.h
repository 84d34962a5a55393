// SPDX-License-Identifier: Apache-2.0
// Brings a database to the newest version of its tables, after a copy of what a migration may lose.
#pragma once

#include <span>
#include <string_view>

#include "base/file.h"
#include "base/result.h"
#include "sql/connection.h"

namespace trainyard::sql {

// Runs those of `migrations` that the file lacks, each in a transaction of its own. They are
// scripts numbered from 1 (SQLite's user_version). A file that has something to lose is copied to
// <file>.version-<n> first. kUnimplemented when a newer program wrote it.
Result<void> migrate(Connection& connection, const Path& file,
                     std::span<const std::string_view> migrations);

}  // namespace trainyard::sql
