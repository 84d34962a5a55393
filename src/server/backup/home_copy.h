// SPDX-License-Identifier: Apache-2.0
// Copies what lasts of a home: both databases, contents, logs, configuration and keys. A backup is
// such a copy with a file backup.json, which is written last: a directory without it is no backup.
// The server may run meanwhile and never waits for the copy.
//
// Consistent by order: the jobs first, then the index of the objects, so that what a job has left
// is there; then the contents that this index names, which the store keeps meanwhile
// (s3/directory/kept_back.h). Beside a store that does not, a content that went before it could be
// linked is no longer wanted: a fresh copy of the index says so. The logs come last.
//
// A backup that is restored may come from anybody: nothing in it leads out of it (plain_files.h,
// store_index.h).
#pragma once

#include "base/clock.h"
#include "base/file.h"
#include "base/result.h"
#include "server/backup/home_parts.h"
#include "server/backup/progress.h"

namespace trainyard::server {

// Makes the directory `target`, which must not exist (kAlreadyExists); it appears whole or not at
// all, and is on disk then. Until then it is <target>.partial, which a killed backup leaves behind
// and the next one removes. Contents become hard links where the file system allows it.
Result<CopyCounts> make_backup(const Path& home, const Path& target, WallTime now,
                               const CopyProgress& progress);

// Makes `home`, which must not exist or be empty (kConflict), from a backup; whole or not at all.
// An empty home passes on its mode and, when root restores, its owner. kCorrupt when the backup is
// not whole: it names what is missing or damaged.
Result<CopyCounts> restore_backup(const Path& backup, const Path& home,
                                  const CopyProgress& progress);

// What make_backup() and restore_backup() refuse before they copy anything, for those who would
// leave something behind before they call them: kNotFound for what is no home; kConflict, with the
// way out, for where no home can be made.
Result<void> expect_home(const Path& home);
Result<void> expect_room(const Path& home);

inline constexpr const char* kBackupFile = "backup.json";

}  // namespace trainyard::server
