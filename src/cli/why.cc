// SPDX-License-Identifier: Apache-2.0
#include "cli/why.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/encoding.h"
#include "base/text.h"
#include "cli/members.h"
#include "cli/terminal.h"
#include "cli/views.h"

namespace trainyard::cli {
namespace {

using Json = nlohmann::json;

// A line of an explanation stays one line of a terminal or two.
constexpr std::size_t kLongest = 300;
constexpr std::string_view kAlgorithmError = "AlgorithmError: ";
constexpr std::string_view kLastLines = "; last lines: ";

std::string in_one_line(std::string_view text) {
  const std::string valid = to_valid_utf8(text);
  std::string line;
  for (const char c : trim(valid)) {
    line += c == '\n' ? std::string(" / ") : std::string(1, c);
  }
  const std::string_view shown = utf8_prefix(line, kLongest);
  return std::string(shown) + (shown.size() < line.size() ? "..." : "");
}

std::string time_between(const Json& from, const Json& to, std::string_view first,
                         std::string_view last, WallTime now) {
  const auto begin = time_of(from, first);
  if (!begin.has_value()) {
    return {};
  }
  const WallTime end = time_of(to, last).value_or(now);
  return show_duration(std::chrono::duration_cast<std::chrono::seconds>(end - *begin));
}

// --- the cause ---

// Without the program's last lines: they are shown as lines.
std::string short_reason(const Json& job) {
  const std::string reason = text_of(job, "FailureReason");
  return in_one_line(reason.substr(0, reason.find(kLastLines)));
}

// What the job did last before it ended; what it does now while it runs.
const Json& last_step(const Json& job) {
  static const Json kNone = Json::object();
  const Json& steps = list_of(job, "SecondaryStatusTransitions");
  const auto is_step = [](const Json& step) {
    const std::string status = text_of(step, "Status");
    return status != "Failed" && status != "Completed" && status != "Stopped" &&
           status != "Stopping" && status != "MaxRuntimeExceeded" &&
           status != "MaxWaitTimeExceeded";
  };
  const auto found = std::find_if(steps.rbegin(), steps.rend(), is_step);
  return found == steps.rend() ? kNone : *found;
}

std::string after_and_in(const Json& job, WallTime now) {
  const std::string time = show_job_time(job, now);
  const std::string step = text_of(last_step(job), "Status");
  return (time.empty() ? "" : " after " + time) + (step.empty() ? "" : " in " + step);
}

std::string cause_of(const Json& job, WallTime now) {
  const std::string status = text_of(job, "TrainingJobStatus");
  if (status == "Completed") {
    return "completed" +
           (show_job_time(job, now).empty() ? "" : " after " + show_job_time(job, now));
  }
  if (status == "Failed") {
    return "failed" + after_and_in(job, now) + ": " + short_reason(job);
  }
  const Json& steps = list_of(job, "SecondaryStatusTransitions");
  const std::string message =
      steps.empty() ? std::string() : in_one_line(text_of(steps.back(), "StatusMessage"));
  const std::string said = message.empty() ? "" : ": " + message;
  if (status == "Stopped") {
    return "stopped" + after_and_in(job, now) + said;
  }
  const std::string time =
      steps.empty() ? "" : time_between(steps.back(), steps.back(), "StartTime", "EndTime", now);
  return "is in " + text_of(job, "SecondaryStatus") + (time.empty() ? "" : " for " + time) + said;
}

// --- restarts ---

// Why an attempt ended, where and after what time.
std::string end_of(const Json& ended, WallTime now) {
  const std::string host = text_of(ended, "Host");
  const std::string time = time_between(ended, ended, "StartTime", "EndTime", now);
  std::string place = host;
  if (!time.empty()) {
    place += (place.empty() ? "after " : ", after ") + time;
  }
  const std::string cause = in_one_line(text_of(ended, "Cause"));
  return (cause.empty() ? "no cause was recorded" : cause) +
         (place.empty() ? "" : " (" + place + ")");
}

std::string last_restart(const Json& attempts, WallTime now) {
  return attempts.size() < 2 ? std::string() : end_of(attempts[attempts.size() - 2], now);
}

// What a job that did not fail has lost without being restarted; empty when its cause says so.
std::string loss_of(const Json& job, const std::string& cause, WallTime now) {
  if (text_of(job, "TrainingJobStatus") == "Failed") {
    return {};
  }
  const Json& attempts = list_of(job, "Attempts");
  if (!attempts.empty() && !text_of(attempts.back(), "Cause").empty()) {
    return end_of(attempts.back(), now);
  }
  for (const Json& step : list_of(job, "SecondaryStatusTransitions")) {
    const std::string message = in_one_line(text_of(step, "StatusMessage"));
    if (attempts.size() < 2 && message.find(" was lost") != std::string::npos &&
        cause.find(message) == std::string::npos) {
      return message;
    }
  }
  return {};
}

// --- the program's last words ---

bool names_an_error(std::string_view line) {
  const std::string_view name = line.substr(0, line.find(':'));
  return name.find(' ') == std::string_view::npos &&
         (name.ends_with("Error") || name.ends_with("Exception") || name.ends_with("Interrupt"));
}

std::string_view without_rank(std::string_view line) {
  if (!line.starts_with("[rank ")) {
    return line;
  }
  const std::size_t end = line.find("] ");
  return end == std::string_view::npos ? line : line.substr(end + 2);
}

// What mpirun and the platform say in every such job: nothing about the cause.
constexpr std::array<std::string_view, 12> kBoilerplate = {
    "This job runs under mpirun:",
    "/opt/ml/output/failure says nothing:",
    "mpirun detected that one or more processes exited",
    "mpirun noticed that process rank",
    "thus causing the job to be terminated",
    "Process name: [[",
    "Exit code:",
    "Primary job  terminated normally, but",
    "a non-zero exit code. Per user-direction",
    "NOTE: invoking MPI_ABORT causes Open MPI",
    "You may or may not see output from other processes",
    "exactly when Open MPI kills them"};

bool says_something(std::string_view line) {
  const std::string_view said = trim(without_rank(line));
  return said.find_first_not_of('-') != std::string_view::npos &&
         std::none_of(kBoilerplate.begin(), kBoilerplate.end(),
                      [&](std::string_view known) { return said.starts_with(known); });
}

std::vector<std::string> telling_lines(const std::vector<std::string>& output,
                                       const std::string& mark) {
  std::vector<std::string> lines;
  std::copy_if(
      output.begin(), output.end(), std::back_inserter(lines),
      [&](const std::string& line) { return line.starts_with(mark) && says_something(line); });
  return lines;
}

// The failing process's last lines as FailureReason has them: few, and the first may be cut.
std::vector<std::string> lines_in_reason(const Json& job) {
  const std::string reason = text_of(job, "FailureReason");
  const std::size_t at = reason.find(kLastLines);
  std::vector<std::string> lines;
  if (at != std::string::npos) {
    const std::size_t first = at + kLastLines.size();
    const std::size_t end = reason.rfind(", exit code: ");
    const std::string text = reason.substr(first, end < first ? end : end - first);
    for (const std::string_view line : split(text, '\n')) {
      lines.emplace_back(line);
    }
  }
  return lines;
}

// The lines of the failed process. Where one launcher has the ranks of all hosts, the log of the
// host has none of them: then the reason's are better than what else was printed there.
std::vector<std::string> lines_of_culprit(const Json& job, const std::vector<std::string>& output,
                                          const std::string& rank) {
  if (says_rank(output, rank)) {
    return telling_lines(output, "[rank " + rank + "] ");
  }
  std::vector<std::string> printed = telling_lines(output, "");
  std::vector<std::string> reported = telling_lines(lines_in_reason(job), "");
  return printed.empty() || (!rank.empty() && !reported.empty()) ? reported : printed;
}

// Of a traceback the place and the error; else the last two lines.
std::vector<std::string> last_words(const std::vector<std::string>& said) {
  const auto error = std::find_if(said.rbegin(), said.rend(), [](const std::string& line) {
    return names_an_error(without_rank(line));
  });
  const auto last = error == said.rend() ? said.rbegin() : error;
  if (last == said.rend()) {
    return {};
  }
  const auto place = std::find_if(last, said.rend(), [](const std::string& line) {
    return trim(without_rank(line)).starts_with("File \"");
  });
  const auto first = place != said.rend() ? place : last + 1;
  std::vector<std::string> words;
  if (first != said.rend()) {
    words.push_back(in_one_line(*first));
  }
  words.push_back(in_one_line(*last));
  return words;
}

// --- what to do ---

struct Advice {
  std::string_view begins;  // the FailureReason
  std::string_view next;
};

constexpr std::array kAdvice = {
    Advice{kAlgorithmError,
           "repair the program and submit it under a new name; all that it printed: "
           "trainyard logs "},
    Advice{"ClientError: ",
           "correct what the reason names in the request, the data or the code, and "
           "submit it under a new name; all that was asked: trainyard describe "},
    Advice{"CapacityError: ",
           "ask for fewer or smaller instances, or submit it again when others have "
           "ended: trainyard list --status InProgress"},
    Advice{"InternalServerError: ",
           "the program is not at fault: submit it again; RetryStrategy allows "
           "more restarts; the server's log says more"}};

// The kernel's memory killer does it so, and where it cannot be asked nobody knows.
bool was_killed(const std::string& reason) {
  const std::string head = reason.substr(0, reason.find(kLastLines));
  return head.find("killed by signal 9 ") != std::string::npos ||
         head.find("exited with code 137") != std::string::npos;
}

bool names_missing_module(const std::string& reason, const std::vector<std::string>& words) {
  constexpr std::string_view kMissing = "ModuleNotFoundError: ";
  return reason.find(kMissing) != std::string::npos ||
         std::any_of(words.begin(), words.end(), [&](const std::string& line) {
           return line.find(kMissing) != std::string::npos;
         });
}

// `words` are the program's last ones.
std::string advice_for_failure(const Json& job, const std::vector<std::string>& words) {
  const std::string reason = text_of(job, "FailureReason");
  if (reason.find("ran out of memory") != std::string::npos) {
    return "give it fewer processes, smaller batches, or instances with more memory";
  }
  if (reason.find("No space left on device") != std::string::npos ||
      reason.find("InsufficientStorage") != std::string::npos ||
      reason.find("disk is full") != std::string::npos) {
    return "make room on the disk that the reason speaks of (the server's home has jobs, logs and "
           "objects; df shows what is left) and submit it again";
  }
  if (reason.starts_with(kAlgorithmError) && names_missing_module(reason, words)) {
    return "name the package in requirements.txt beside the program, in the same source "
           "directory: it is installed before the program starts; then submit it under a new name";
  }
  if (reason.starts_with(kAlgorithmError) && was_killed(reason)) {
    return "if nobody killed it, it ran out of memory: give it fewer processes, smaller batches, "
           "or "
           "instances with more memory; all that it printed: trainyard logs " +
           text_of(job, "TrainingJobName");
  }
  if (flag_of(job, "HasModelArtifacts").value_or(false)) {
    return "take what there is of the model: " + show_model(job) +
           "; keep what the reason names out of /opt/ml/model and /opt/ml/output/data";
  }
  for (const Advice& advice : kAdvice) {
    if (reason.starts_with(advice.begins)) {
      const bool takes_name = advice.next.ends_with(' ');
      return std::string(advice.next) + (takes_name ? text_of(job, "TrainingJobName") : "");
    }
  }
  return "all that it printed: trainyard logs " + text_of(job, "TrainingJobName");
}

// The member of StoppingCondition that ended a job; empty when none did.
std::string_view limit_that_ended(const Json& job) {
  constexpr std::array<std::string_view, 3> kLimits = {
      "MaxRuntimeInSeconds", "MaxWaitTimeInSeconds", "MaxPendingTimeInSeconds"};
  const Json& steps = list_of(job, "SecondaryStatusTransitions");
  if (text_of(job, "TrainingJobStatus") != "Stopped" || steps.empty()) {
    return {};
  }
  const std::string message = text_of(steps.back(), "StatusMessage");
  const auto found = std::ranges::find_if(kLimits, [&](std::string_view limit) {
    return message.find(std::string(limit) + " exceeded") != std::string::npos;
  });
  return found == kLimits.end() ? std::string_view() : *found;
}

std::string advice_for(const Json& job, const std::vector<std::string>& words) {
  const std::string name = text_of(job, "TrainingJobName");
  const std::string status = text_of(job, "TrainingJobStatus");
  if (status == "Failed") {
    return advice_for_failure(job, words);
  }
  if (const std::string_view limit = limit_that_ended(job); !limit.empty()) {
    const auto was = number_of(object_of(job, "StoppingCondition"), limit);
    return "raise StoppingCondition." + std::string(limit) +
           (was.has_value() ? " (it was " + std::to_string(*was) + ")" : "");
  }
  if (status == "Completed" || status == "Stopped") {
    const std::string model = show_model(job);
    return "nothing" + (model.empty() ? std::string() : "; model: " + model);
  }
  const std::string message = text_of(last_step(job), "StatusMessage");
  if (message.starts_with("Waiting for capacity that there is not")) {
    return "trainyard stop " + name +
           "; or raise `capacity` in config.yaml of the server's home, and restart the server";
  }
  if (message.starts_with("Waiting for capacity")) {
    return "nothing: it starts by itself; who holds the instances: trainyard list --status "
           "InProgress";
  }
  return "nothing; watch it: trainyard logs -f " + name;
}

}  // namespace

bool says_rank(const std::vector<std::string>& output, const std::string& rank) {
  const std::string mark = "[rank " + rank + "] ";
  return !rank.empty() && std::any_of(output.begin(), output.end(), [&](const std::string& line) {
    return line.starts_with(mark) && says_something(line);
  });
}

// "AlgorithmError: rank 1 on algo-2 exited ..." or "AlgorithmError: algo-1 exited ...".
Culprit culprit_of(const Json& description) {
  std::string_view rest;
  const std::string reason = text_of(description, "FailureReason");
  if (!reason.starts_with(kAlgorithmError)) {
    return {};
  }
  rest = std::string_view(reason).substr(kAlgorithmError.size());
  Culprit culprit;
  constexpr std::string_view kRank = "rank ";
  constexpr std::string_view kOn = " on ";
  if (const std::size_t on = rest.find(kOn); rest.starts_with(kRank) && on != rest.npos) {
    culprit.rank = rest.substr(kRank.size(), on - kRank.size());
    rest.remove_prefix(on + kOn.size());
  }
  const std::string_view host = rest.substr(0, rest.find(' '));
  if (host.starts_with("algo-")) {
    culprit.host = host;
  }
  return culprit;
}

Explanation explain(const Json& description, const std::vector<std::string>& output, WallTime now) {
  const Json& attempts = list_of(description, "Attempts");
  const Culprit culprit = culprit_of(description);
  Explanation why{.job = text_of(description, "TrainingJobName"),
                  .status = text_of(description, "TrainingJobStatus"),
                  .cause = cause_of(description, now),
                  .restarts = attempts.empty() ? 0 : attempts.size() - 1,
                  .last_restart = last_restart(attempts, now),
                  .loss = loss_of(description, cause_of(description, now), now)};
  if (!culprit.host.empty()) {
    why.last_lines = last_words(lines_of_culprit(description, output, culprit.rank));
    why.host = culprit.host;
  }
  why.next = advice_for(description, why.last_lines);
  return why;
}

std::string show_explanation(const Explanation& why, bool color) {
  std::string text = paint(printable(why.job, false), color_of_status(why.status), color) + " " +
                     printable(why.cause, false) + "\n";
  if (why.restarts > 0) {
    text += "Restarts: " + std::to_string(why.restarts) + ", the last because " +
            printable(why.last_restart, false) + "\n";
  }
  if (!why.loss.empty()) {
    text += "Lost on the way: " + printable(why.loss, false) + "\n";
  }
  for (const std::string& line : why.last_lines) {
    text += paint(why.host + " |", Color::kCyan, color) + " " + printable(line, false) + "\n";
  }
  return text + paint("Next:", Color::kBold, color) + " " + printable(why.next, false) + "\n";
}

Json to_json(const Explanation& why) {
  Json lines = Json::array();
  for (const std::string& line : why.last_lines) {
    lines.push_back({{"host", why.host}, {"message", line}});
  }
  return {{"TrainingJobName", why.job},
          {"TrainingJobStatus", why.status},
          {"Cause", why.cause},
          {"Restarts", why.restarts},
          {"LastRestart", why.last_restart},
          {"Loss", why.loss},
          {"LastLines", lines},
          {"Next", why.next}};
}

}  // namespace trainyard::cli
