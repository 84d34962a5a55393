// SPDX-License-Identifier: Apache-2.0
// Answers of the API as text for people: pure functions, no I/O.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/clock.h"

namespace trainyard::cli {

// Nothing more will happen to it.
bool has_ended(const nlohmann::json& job);

// "InProgress, Training"; "Stopped" where both are one.
std::string show_status(const nlohmann::json& job);

// From a job's start (or creation) to its end, or to `now` while it runs: "1 min 03 s".
std::string show_job_time(const nlohmann::json& job, WallTime now);

// Where the model is: its URI, what keeps it from being there yet, or why there is none.
std::string show_model(const nlohmann::json& description);

// TrainingJobSummaries as a table; running jobs are timed until `now`.
std::string show_jobs(const nlohmann::json& summaries, WallTime now, bool color);

// DescribeTrainingJob's answer: what it is, how it goes, what it has been given and what it made.
std::string show_job(const nlohmann::json& description, WallTime now, bool color);

// "demo-1 completed in 1 min 03 s. Model: s3://..." and the like, for the end of a watch.
std::string show_end(const nlohmann::json& description, bool color);

}  // namespace trainyard::cli
