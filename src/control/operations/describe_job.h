// SPDX-License-Identifier: Apache-2.0
// How clients see jobs: the answers of DescribeTrainingJob and ListTrainingJobs, as pure functions.
// The request is echoed with the service's defaults filled in, because SDKs index into members that
// the model calls optional.
#pragma once

#include <nlohmann/json.hpp>

#include "control/job/job.h"
#include "control/tables/job_table.h"
#include "control/tables/metric_table.h"

namespace trainyard::control {

// `metrics` are the job's series, of which the last values are shown.
nlohmann::json describe_job(const Job& job, const std::vector<Series>& metrics = {});
nlohmann::json summary_json(const JobSummary& job);
nlohmann::json tags_json(const std::vector<Tag>& tags);

}  // namespace trainyard::control
