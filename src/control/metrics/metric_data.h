// SPDX-License-Identifier: Apache-2.0
// GetMetricData: several metrics at once, in pages. Metric mathematics is not served.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "control/tables/database.h"

namespace trainyard::control {

Result<nlohmann::json> get_metric_data(Database& database, const nlohmann::json& input);

}  // namespace trainyard::control
