// SPDX-License-Identifier: Apache-2.0
// Runs a plan: one thread, one epoll loop, every connection kept alive and used for one request at
// a time. What is to be sent and what must come back is Work's business; this moves the bytes and
// takes the times. A request's time runs from its first byte (or from when it was due, where the
// plan sets the pace) until its answer has been checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "bench/load/histogram.h"
#include "bench/load/plan.h"

namespace trainyard::load {

struct Report {
  std::uint64_t requests = 0;  // that succeeded
  std::uint64_t failed = 0;
  std::vector<std::string> failures = {};  // the first few
  std::uint64_t broken = 0;                // connections that ended, where the plan allows it
  std::uint64_t connects = 0;
  std::uint64_t idle_held = 0;   // idle connections that still answered at the end
  std::uint64_t bytes_sent = 0;  // bodies only
  std::uint64_t bytes_received = 0;
  std::uint64_t items = 0;
  std::chrono::nanoseconds elapsed = {};
  Histogram latency = {};
  Histogram lag = {};
  std::vector<std::uint64_t> acknowledged = {};
};

// An error: it could not begin (nobody listens, too few files may be open). What fails on the way
// is in the report; after 20 failures the run ends.
Result<Report> run(const Plan& plan, const Clock& clock);

// The report as one JSON object: counts, rates a second, times in milliseconds.
std::string to_json_text(const Report& report);

}  // namespace trainyard::load
