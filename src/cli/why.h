// SPDX-License-Identifier: Apache-2.0
// Why a job failed, waits or was restarted, in at most five lines: how it stands and the cause, the
// restarts, the last lines of the program that failed first, what to do next. Pure functions of
// recorded facts; verbs.cc asks the API for them.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/clock.h"

namespace trainyard::cli {

// Which output belongs into the explanation of a description (DescribeTrainingJob's answer).
struct Culprit {
  std::string host = {};  // "algo-2"; empty when no program of the user's has failed
  std::string rank = {};  // "1", where the reason names one
};
Culprit culprit_of(const nlohmann::json& description);

// Whether a host's output has lines of that rank. Under mpirun they stand in the first host's.
bool says_rank(const std::vector<std::string>& output, const std::string& rank);

struct Explanation {
  std::string job;
  std::string status;                        // TrainingJobStatus
  std::string cause;                         // a sentence: how it stands, and why
  std::size_t restarts = 0;                  // by the platform
  std::string last_restart = {};             // why the last one was
  std::string loss = {};                     // of an instance, in a job that did not fail of it
  std::string host = {};                     // whose lines these are
  std::vector<std::string> last_lines = {};  // two at most
  std::string next = {};                     // what to do
};

// `output` holds the latest lines of the culprit's host, the newest last. Running jobs are timed
// until `now`.
Explanation explain(const nlohmann::json& description, const std::vector<std::string>& output,
                    WallTime now);

std::string show_explanation(const Explanation& why, bool color);
nlohmann::json to_json(const Explanation& why);

}  // namespace trainyard::cli
