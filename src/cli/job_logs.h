// SPDX-License-Identifier: Apache-2.0
// The lines of all of a job's log streams as one sequence in order of time. It holds one page of
// each stream and no more, however long the log is, and remembers where it was: a later drain()
// gives only what is new.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/api_client.h"

namespace trainyard::cli {

struct LogEvent {
  std::int64_t time = 0;  // milliseconds since 1970
  std::string stream;     // "demo-1/algo-1-1796069525"
  std::string text;
};

// "algo-1" of "demo-1/algo-1-1796069525".
std::string host_of(std::string_view stream);

// The latest lines of one host of a job, the newest last; of its newest stream, when it was started
// more than once. None is no error.
Result<std::vector<std::string>> latest_lines(const ApiClient& api, const std::string& job,
                                              const std::string& host, int count);

class JobLogs {
 public:
  JobLogs(const ApiClient& api, std::string job) : api_(api), job_(std::move(job)) {}

  // Hands every event that exists and has not been given yet to `sink`, whose error ends it. No log
  // group, or no stream yet, is no error.
  Result<void> drain(const std::function<Result<void>(const LogEvent&)>& sink);

 private:
  struct Stream {
    std::string next_token;
    std::deque<LogEvent> page;
    bool at_end = false;  // for this drain
  };

  Result<void> find_streams();
  Result<void> fill(const std::string& name, Stream& stream);

  const ApiClient& api_;
  std::string job_;
  std::map<std::string, Stream> streams_;
};

}  // namespace trainyard::cli
