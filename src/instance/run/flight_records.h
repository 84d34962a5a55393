// SPDX-License-Identifier: Apache-2.0
// What the collectives of a job have left on this host when something went wrong: the last
// operations of each rank (comm/health/dump.h). They come with output.tar.gz:
//
//   /opt/ml/output/data/flight-algo-1-rank-3.group_0.jsonl
#pragma once

#include <string>
#include <vector>

#include "base/file.h"

namespace trainyard::instance {

// Copies those of the folder `status` to the job's output, and gives the lines that say so in its
// log. User code may have put anything in both: what is no file, or too large for a record, is not
// kept, and no link is followed.
std::vector<std::string> keep_flight_records(const Path& status, const Path& ml,
                                             const std::string& host);

}  // namespace trainyard::instance
