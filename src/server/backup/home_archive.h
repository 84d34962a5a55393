// SPDX-License-Identifier: Apache-2.0
// A backup as one file: home_copy.h's directory in a .tar.gz, for those who carry it elsewhere.
#pragma once

#include "server/backup/home_copy.h"

namespace trainyard::server {

bool is_archive_name(const Path& path);  // *.tar.gz, *.tgz

// As make_backup() and restore_backup(): whole or not at all. The directory that goes into the file
// is made in the home, by hard links, and removed again; one backup of a home at a time
// (kConflict).
Result<CopyCounts> make_backup_file(const Path& home, const Path& file, WallTime now,
                                    const CopyProgress& progress);
// Unpacks beside the home. kCorrupt when the file is not a whole archive.
Result<CopyCounts> restore_backup_file(const Path& file, const Path& home,
                                       const CopyProgress& progress);

}  // namespace trainyard::server
