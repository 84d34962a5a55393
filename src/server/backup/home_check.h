// SPDX-License-Identifier: Apache-2.0
// Reads all of a home, or of a backup, and says what is wrong with it: both databases by SQLite's
// full check, each content file by its size, each record of the logs by its checksum. Changes
// nothing; the server may run meanwhile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "server/backup/progress.h"

namespace trainyard::server {

struct HomeReport {
  std::uint64_t contents = 0;
  std::uint64_t bytes = 0;
  std::uint64_t log_files = 0;
  std::uint64_t log_lines = 0;
  // For people, each naming its file. At most a hundred, then how many more.
  std::vector<std::string> problems;
  std::uint64_t problem_count = 0;  // of all
};

// An error when it cannot be checked at all.
Result<HomeReport> check_home(const Path& home, const CopyProgress& progress);

}  // namespace trainyard::server
