// SPDX-License-Identifier: Apache-2.0
// Watching a job until it ends: its lines of output, its changes of status, and what the end was.
// A server that restarts meanwhile is waited for.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/result.h"
#include "cli/api_client.h"
#include "cli/terminal.h"

namespace trainyard::cli {

struct FollowOptions {
  bool show_lines = true;   // to `out`
  bool json = false;        // lines as JSON, one document a line
  bool show_status = true;  // changes of status, to `err`
  std::chrono::milliseconds interval{1'000};
  std::chrono::seconds patience{120};  // how long an unreachable server is waited for
};

// Waits, and gives false when the user has asked to stop.
using Pause = std::function<bool(std::chrono::milliseconds)>;

// Prints the events that a job has so far; false when there are none.
Result<bool> print_log(const ApiClient& api, const std::string& job, bool json,
                       const Terminal& terminal);

// Goes on until the job's status is terminal and its last line is printed; gives its description
// (DescribeTrainingJob's answer). kCancelled when the user stopped watching.
Result<nlohmann::json> follow_job(const ApiClient& api, const std::string& job,
                                  const FollowOptions& options, const Pause& pause,
                                  const Terminal& terminal);

}  // namespace trainyard::cli
