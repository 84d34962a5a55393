// SPDX-License-Identifier: Apache-2.0
// Reads validated requests of CloudWatch: which metric, which range, which statistics. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "control/metrics/points.h"
#include "control/tables/metric_table.h"

namespace trainyard::control {

// "Period" in seconds: 1, 5, 10, 20, 30 or a multiple of 60.
Result<Duration> period_in(const nlohmann::json& input);

// "StartTime", moved back to the start of its period, to "EndTime".
Result<TimeRange> range_in(const nlohmann::json& input, Duration period);

// The training job that Namespace and Dimensions of a metric mean; none for metrics of others.
std::optional<std::string> job_of_metric(const nlohmann::json& metric);

// Our metrics have no unit: those in another unit do not exist.
bool is_unitless(const nlohmann::json& input);

// "Average", "Sum", "Minimum", "Maximum" or "SampleCount"; nothing for another name. Requires
// values.count > 0.
std::optional<double> statistic(std::string_view name, const Aggregate& values);

// What a token is valid for: the operation with its filters. page_state() reads one back.
std::string page_scope(std::string_view operation, const nlohmann::json& input);
Result<nlohmann::json> page_state(const std::string& scope, const std::string& token);

}  // namespace trainyard::control
