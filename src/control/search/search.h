// SPDX-License-Identifier: Apache-2.0
// The operation Search over training jobs: every job, as DescribeTrainingJob shows it with its
// tags, is held against the expression; of those that match only the sort key is kept, and one page
// is read again. The database is read in slices, so that no other reader waits long.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "control/tables/database.h"

namespace trainyard::control {

Result<nlohmann::json> search_jobs(Database& database, const nlohmann::json& input);

}  // namespace trainyard::control
