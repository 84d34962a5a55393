// SPDX-License-Identifier: Apache-2.0
// What a directory is the home of, told by the files in it.
#pragma once

#include "base/file.h"
#include "base/result.h"
#include "server/backup/plain_files.h"

namespace trainyard::server {

// The home of a server; that of `trainyard store` alone, which has no jobs; or the latter's --root.
struct HomeKind {
  bool has_jobs = true;      // trainyard.db, logs/ and what belongs to them
  Path objects = "objects";  // where the object store lies, relative to the home
};

// kNotFound, with what it lacks, for any other directory; also for a server's home that has lost
// its database: it has logs/.
Result<HomeKind> kind_of(const PlainFiles& home);

}  // namespace trainyard::server
