// SPDX-License-Identifier: Apache-2.0
// What a failure of SQLite means to those who asked: one table for all databases.
#pragma once

#include "base/result.h"

struct sqlite3;

namespace trainyard::sql {

// Of an extended result code (https://www.sqlite.org/rescode.html). What the disk denies is
// kInternal: kDenied would tell a client that it may not, and an instance that its attempt is over.
Code code_of(int sqlite_code);

// The last failure of a connection, with the name of its file.
Error error_of(sqlite3* handle);

}  // namespace trainyard::sql
