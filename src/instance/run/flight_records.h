// SPDX-License-Identifier: Apache-2.0
// What the collectives of a job have left on this host when something went wrong: the last
// operations of each rank (comm/health/dump.h). They come with output.tar.gz:
//
//   /opt/ml/output/data/flight-algo-1-rank-3.group_0.jsonl
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/file.h"

namespace trainyard::instance {

struct FlightRecordLimits {
  std::size_t files = 1024;
  std::size_t bytes_each = std::size_t{16} << 20;  // 4,096 operations are less than 2 MiB
  std::size_t bytes_in_all = std::size_t{256} << 20;
};

// Copies those of the folder `status` to the job's output, and gives the lines that say so in its
// log. It runs before the exit is told, which says whether there is an output. User code may have
// put anything in both folders: what is no file, has holes (which cost its writer nothing, and us
// the bytes), or is beyond a limit, is not kept, and no link is followed.
std::vector<std::string> keep_flight_records(const Path& status, const Path& ml,
                                             const std::string& host,
                                             const FlightRecordLimits& limits = {});

}  // namespace trainyard::instance
