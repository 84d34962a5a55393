// SPDX-License-Identifier: Apache-2.0
#include "cli/follow.h"

#include <ostream>

#include <nlohmann/json.hpp>

#include "cli/job_logs.h"
#include "cli/members.h"

namespace trainyard::cli {
namespace {

using Json = nlohmann::json;

bool is_terminal(std::string_view status) {
  return status == "Completed" || status == "Failed" || status == "Stopped";
}

Result<void> print_event(const LogEvent& event, bool json, const Terminal& terminal) {
  if (json) {
    const Json line = {{"timestamp", event.time},
                       {"stream", event.stream},
                       {"host", host_of(event.stream)},
                       {"message", event.text}};
    terminal.out << line.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
  } else {
    terminal.out << paint(host_of(event.stream) + " |", Color::kCyan, terminal.color) << ' '
                 << (terminal.is_tty ? printable(event.text, terminal.color) : event.text) << '\n';
  }
  // The rest of a long log is not worth reading when nobody gets it.
  return terminal.out.good() ? Result<void>() : flush(terminal);
}

// What a job is doing, in one line; the same line twice means that nothing has changed.
std::string status_line(const Json& description) {
  const Json& transitions = list_of(description, "SecondaryStatusTransitions");
  std::string text = text_of(description, "SecondaryStatus");
  const std::string message =
      transitions.empty() ? std::string() : text_of(transitions.back(), "StatusMessage");
  return message.empty() ? text : text + " - " + message;
}

// Sentences of an outage: said once, not at every try.
class Outage {
 public:
  Outage(const FollowOptions& options, const Terminal& terminal)
      : options_(options), terminal_(terminal) {}

  void is_over() { tries_ = 0; }

  // True when it is worth another try.
  bool goes_on(const Error& error) {
    const bool may_pass = error.code == Code::kUnavailable || error.code == Code::kDeadline;
    if (!may_pass || ++tries_ * options_.interval > options_.patience) {
      return false;
    }
    if (tries_ == 1) {
      terminal_.err << paint("waiting for the server: " + error.message, Color::kYellow,
                             terminal_.color)
                    << '\n';
    }
    return true;
  }

 private:
  const FollowOptions& options_;
  const Terminal& terminal_;
  int tries_ = 0;
};

class Follower {
 public:
  Follower(const ApiClient& api, const std::string& job, const FollowOptions& options,
           const Terminal& terminal)
      : api_(api), job_(job), options_(options), terminal_(terminal), logs_(api, job) {}

  // One look. The status is asked before the lines, so that a terminal status means: these lines
  // were the last.
  Result<Json> look() {
    YARD_TRY(Json description,
             api_.call("sagemaker", "DescribeTrainingJob", {{"TrainingJobName", job_}}));
    const bool is_last = is_terminal(text_of(description, "TrainingJobStatus"));
    if (options_.show_status && !is_last) {
      show_status(description);
    }
    if (options_.show_lines) {
      YARD_TRY(logs_.drain(
          [&](const LogEvent& event) { return print_event(event, options_.json, terminal_); }));
      YARD_TRY(flush(terminal_));
    }
    if (options_.show_status && is_last) {
      show_status(description);
    }
    return description;
  }

 private:
  void show_status(const Json& description) {
    const std::string line = status_line(description);
    if (line != shown_) {
      terminal_.err << paint(printable(line, false), Color::kDim, terminal_.color) << '\n';
      terminal_.err.flush();
      shown_ = line;
    }
  }

  const ApiClient& api_;
  const std::string& job_;
  const FollowOptions& options_;
  const Terminal& terminal_;
  JobLogs logs_;
  std::string shown_;
};

}  // namespace

Result<bool> print_log(const ApiClient& api, const std::string& job, bool json,
                       const Terminal& terminal) {
  JobLogs logs(api, job);
  bool printed = false;
  YARD_TRY(logs.drain([&](const LogEvent& event) {
    printed = true;
    return print_event(event, json, terminal);
  }));
  return printed;
}

Result<Json> follow_job(const ApiClient& api, const std::string& job, const FollowOptions& options,
                        const Pause& pause, const Terminal& terminal) {
  Follower follower(api, job, options, terminal);
  Outage outage(options, terminal);
  for (;;) {
    Result<Json> description = follower.look();
    if (description) {
      outage.is_over();
      if (is_terminal(text_of(*description, "TrainingJobStatus"))) {
        return description;
      }
    } else if (!outage.goes_on(description.error())) {
      return description;
    }
    if (!pause(options.interval)) {
      return Error{.code = Code::kCancelled, .message = "no longer watching " + job};
    }
  }
}

}  // namespace trainyard::cli
