// SPDX-License-Identifier: Apache-2.0
// The operations of CloudWatch that clients use to read metrics: GetMetricStatistics,
// GetMetricData, ListMetrics. JSON in, JSON out, over the metric table; nothing is kept between
// calls. Served is one namespace, that of the custom metrics of training jobs, with one dimension,
// the job's name. Any other metric has no data, as on the service.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "control/tables/database.h"

namespace trainyard::control {

inline constexpr std::string_view kMetricNamespace = "/aws/sagemaker/TrainingJobs";
inline constexpr std::string_view kMetricDimension = "TrainingJobName";

// After validation. kInvalidArgument, whose subject tells CloudWatch's kinds apart: "missing",
// "combination", "token", otherwise a wrong value.
Result<nlohmann::json> call_metrics(Database& database, WallTime now, std::string_view operation,
                                    const nlohmann::json& input);

}  // namespace trainyard::control
