// SPDX-License-Identifier: Apache-2.0
// The hidden verbs that bench/metrics_bench.py drives: how fast lines are searched for metrics, and
// how fast a program's output passes through the log pump beside it. Each prints one JSON object.
#pragma once

#include <string>
#include <vector>

namespace trainyard::instance {

inline constexpr const char* kMetricsRateVerb = "metrics-rate";
inline constexpr const char* kLogRateVerb = "log-rate";

// Both take a file with MetricDefinitions as JSON and a file with lines.
int metrics_rate(const std::vector<std::string>& arguments);
int log_rate(const std::vector<std::string>& arguments);

}  // namespace trainyard::instance
