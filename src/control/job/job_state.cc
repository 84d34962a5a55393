// SPDX-License-Identifier: Apache-2.0
#include "control/job/job_state.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"

namespace trainyard::control {
namespace {

// The wall clock may be set back; what clients have seen may not.
WallTime not_before_last(const Job& job, WallTime now) {
  const WallTime last = job.transitions.empty() ? job.created : job.transitions.back().start;
  return std::max({now, last, job.modified});
}

template <typename Attempts>
auto last_ended(Attempts& attempts) -> decltype(attempts.data()) {
  const auto ended = std::find_if(attempts.rbegin(), attempts.rend(),
                                  [](const Attempt& attempt) { return attempt.end.has_value(); });
  return ended == attempts.rend() ? nullptr : &*ended;
}

}  // namespace

bool is_legal(Secondary from, Secondary to) {
  if (is_terminal(from) || from == to) {
    return false;
  }
  switch (to) {
    case Secondary::kStarting:
      return from == Secondary::kDownloading || from == Secondary::kTraining ||
             from == Secondary::kUploading;
    case Secondary::kDownloading:
      return from == Secondary::kStarting;
    case Secondary::kTraining:
      return from == Secondary::kDownloading;
    case Secondary::kUploading:
      return from == Secondary::kTraining;
    case Secondary::kStopping:
    case Secondary::kFailed:
      return true;
    case Secondary::kCompleted:
      return from == Secondary::kUploading;
    case Secondary::kStopped:
    case Secondary::kMaxRuntimeExceeded:
    case Secondary::kMaxWaitTimeExceeded:
      return from == Secondary::kStopping;
  }
  return false;
}

void begin(Job& job, std::string_view message, WallTime now) {
  job.created = now;
  job.modified = now;
  job.secondary = Secondary::kStarting;
  job.transitions = {
      {.status = job.secondary, .start = now, .end = {}, .message = std::string(message)}};
}

void set_status(Job& job, Secondary to, std::string_view message, WallTime now) {
  YARD_CHECK(is_legal(job.secondary, to),
             fmt::format("job {}: {} -> {}", job.name, name_of(job.secondary), name_of(to)));
  YARD_CHECK(!message.empty(), "a transition without a StatusMessage");
  const WallTime at = not_before_last(job, now);
  job.transitions.back().end = at;
  job.transitions.push_back(
      {.status = to, .start = at, .end = {}, .message = std::string(message)});
  if (is_terminal(to)) {
    job.transitions.back().end = at;
  }
  if (to == Secondary::kDownloading && !job.training_start) {
    job.training_start = at;        // limits and billing count from here, over all attempts
    job.runtime_counts_from = now;  // which may be earlier: what is shown never goes back
  }
  job.secondary = to;
  job.modified = at;
}

bool set_message(Job& job, std::string_view message, WallTime now) {
  if (message.empty() || job.transitions.back().message == message) {
    return false;
  }
  job.transitions.back().message = message;
  job.modified = not_before_last(job, now);
  return true;
}

void conclude(Job& job, const Outcome& outcome) {
  if (!job.outcome || job.outcome->status == Secondary::kCompleted) {
    job.outcome = outcome;
    return;
  }
  const bool both_failed =
      job.outcome->status == Secondary::kFailed && outcome.status == Secondary::kFailed;
  if (both_failed && outcome.at <= job.outcome->at) {
    job.outcome = outcome;
  }
}

void open_attempt(Job& job, WallTime now) {
  if (!job.attempts.empty() && !job.attempts.back().end) {
    job.attempts.back().epoch = job.epoch;
    return;
  }
  const WallTime last_end = job.attempts.empty() ? now : job.attempts.back().end.value_or(now);
  job.attempts.push_back({.epoch = job.epoch, .start = std::max({now, job.created, last_end})});
}

const Attempt* last_ended_attempt(const Job& job) {
  return last_ended(job.attempts);
}

void set_also_lost(Job& job, const std::vector<std::string>& hosts) {
  if (Attempt* ended = last_ended(job.attempts)) {
    ended->also_lost = hosts;
  }
}

Duration repair_pause(int repairs) {
  constexpr int kDoublings = 6;  // beyond the longest
  constexpr Duration kLongest{60'000};
  if (repairs <= 0) {
    return {};
  }
  return std::min(kLongest, Duration(1000) * (1 << std::min(repairs - 1, kDoublings)));
}

void close_attempt(Job& job, std::string_view cause, std::string_view host, WallTime now) {
  if (job.attempts.empty() || job.attempts.back().end) {
    return;
  }
  Attempt& attempt = job.attempts.back();
  attempt.end = std::max(now, attempt.start);
  attempt.cause = cause;
  attempt.host = host;
}

}  // namespace trainyard::control
