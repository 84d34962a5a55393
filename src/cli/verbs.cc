// SPDX-License-Identifier: Apache-2.0
#include "cli/verbs.h"

#include <algorithm>
#include <istream>
#include <iterator>
#include <ostream>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/text.h"
#include "cli/job_file.h"
#include "cli/job_logs.h"
#include "cli/members.h"
#include "cli/views.h"
#include "cli/why.h"

namespace trainyard::cli {
namespace {

using Json = nlohmann::json;

constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kInterrupted = 130;
constexpr std::size_t kMaxJobFile = std::size_t{4} << 20;
constexpr std::int64_t kPageSize = 100;  // the most that AWS gives at once

void print_json(const Json& json, const Terminal& terminal) {
  terminal.out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

Result<Json> describe(const Session& session, const std::string& job) {
  Result<Json> answer =
      session.api.call("sagemaker", "DescribeTrainingJob", {{"TrainingJobName", job}});
  if (!answer && answer.error().message.ends_with("Requested resource not found.")) {
    return Error{.code = Code::kNotFound,
                 .message = "there is no training job '" + job + "'; see trainyard list"};
  }
  return answer;
}

// --- submit ---

Result<Json> read_job(const Options& options, std::istream& in) {
  std::string text;
  if (options.file == "-") {
    text.assign(std::istreambuf_iterator<char>(in), {});
  } else {
    YARD_TRY(text, read_file(options.file, kMaxJobFile));
  }
  Result<Json> job = parse_job(text, options.file.ends_with(".json"));
  if (!job) {
    return job.error().in("reading " + options.file);
  }
  return job;
}

Result<Json> make_request(const Options& options, const Session& session) {
  YARD_TRY(Json job, read_job(options, session.in));
  YARD_TRY(set_hyperparameters(job, options.hyperparameters));
  if (!options.name.empty()) {
    job["TrainingJobName"] = options.name;
  } else if (!job.contains("TrainingJobName")) {
    const std::string image = text_of(object_of(job, "AlgorithmSpecification"), "TrainingImage");
    job["TrainingJobName"] = make_job_name(image, session.clock.now());
  }
  return job;
}

// Watches to the end. With --json only the end is printed, as JSON.
Result<int> watch(const std::string& job, const FollowOptions& follow, bool end_as_json,
                  const Session& session) {
  const Terminal& terminal = session.terminal;
  const Result<Json> end = follow_job(session.api, job, follow, session.pause, terminal);
  if (!end && end.error().code == Code::kCancelled) {
    terminal.err << "\nNo longer watching; the job goes on. Stop it with: trainyard stop " << job
                 << '\n';
    return kInterrupted;
  }
  if (!end) {
    return end.error();
  }
  if (end_as_json) {
    print_json(*end, terminal);
  } else {
    terminal.err << show_end(*end, terminal.color);
  }
  return text_of(*end, "TrainingJobStatus") == "Completed" ? kDone : kFailed;
}

Result<int> submit(const Options& options, const Session& session) {
  YARD_TRY(const Json request, make_request(options, session));
  YARD_TRY(Json answer, session.api.call("sagemaker", "CreateTrainingJob", request));
  const std::string job = text_of(request, "TrainingJobName");
  if (options.wait) {
    session.terminal.err << "Submitted " << job << '\n';
    return watch(job, {.show_lines = !options.json, .show_status = !options.json}, options.json,
                 session);
  }
  if (options.json) {
    answer["TrainingJobName"] = job;
    print_json(answer, session.terminal);
    return kDone;
  }
  session.terminal.out << "Submitted " << job << ". Watch it with: trainyard logs -f " << job
                       << '\n';
  return kDone;
}

// --- list ---

Result<Json> list_jobs(const Options& options, const Session& session) {
  Json input = {{"SortBy", "CreationTime"}, {"SortOrder", "Descending"}};
  if (!options.name.empty()) {
    input["NameContains"] = options.name;
  }
  if (!options.status.empty()) {
    input["StatusEquals"] = options.status;
  }
  Json jobs = Json::array();
  const auto wanted = static_cast<std::size_t>(options.limit);
  while (jobs.size() < wanted) {
    input["MaxResults"] =
        std::min<std::int64_t>(kPageSize, static_cast<std::int64_t>(wanted - jobs.size()));
    YARD_TRY(const Json page, session.api.call("sagemaker", "ListTrainingJobs", input));
    for (const Json& job : list_of(page, "TrainingJobSummaries")) {
      jobs.push_back(job);
    }
    const std::string token = text_of(page, "NextToken");
    if (token.empty()) {
      break;
    }
    input["NextToken"] = token;
  }
  return jobs;
}

Result<int> list(const Options& options, const Session& session) {
  YARD_TRY(const Json jobs, list_jobs(options, session));
  const Terminal& terminal = session.terminal;
  if (options.json) {
    print_json({{"TrainingJobSummaries", jobs}}, terminal);
  } else if (jobs.empty()) {
    terminal.err << "No training jobs. Start one with: trainyard submit job.yaml\n";
  } else {
    terminal.out << show_jobs(jobs, session.clock.now(), terminal.color);
  }
  return kDone;
}

// --- describe, logs, why, stop, signal, delete ---

Result<int> describe_job(const Options& options, const Session& session) {
  YARD_TRY(const Json job, describe(session, options.job));
  if (options.json) {
    print_json(job, session.terminal);
  } else {
    session.terminal.out << show_job(job, session.clock.now(), session.terminal.color);
  }
  return kDone;
}

Result<int> logs(const Options& options, const Session& session) {
  if (options.follow) {
    YARD_TRY(describe(session, options.job));
    return watch(options.job, {.json = options.json, .show_status = !options.json}, false, session);
  }
  YARD_TRY(const bool printed, print_log(session.api, options.job, options.json, session.terminal));
  if (!printed) {
    YARD_TRY(const Json job, describe(session, options.job));
    session.terminal.err << options.job << " has printed nothing" << (has_ended(job) ? "" : " yet")
                         << "; it is " << show_status(job) << '\n';
  }
  return kDone;
}

// Enough for a long traceback of each of a few ranks.
constexpr int kLastLines = 200;

Result<int> why(const Options& options, const Session& session) {
  YARD_TRY(const Json job, describe(session, options.job));
  const Culprit culprit = culprit_of(job);
  std::vector<std::string> output;
  if (!culprit.host.empty()) {
    YARD_TRY(output, latest_lines(session.api, options.job, culprit.host, kLastLines));
    if (!culprit.rank.empty() && !says_rank(output, culprit.rank)) {
      YARD_TRY(auto first, latest_lines(session.api, options.job, "algo-1", kLastLines));
      if (says_rank(first, culprit.rank)) {
        output = std::move(first);
      }
    }
  }
  const Explanation explanation = explain(job, output, session.clock.now());
  if (options.json) {
    print_json(to_json(explanation), session.terminal);
  } else {
    session.terminal.out << show_explanation(explanation, session.terminal.color);
  }
  return kDone;
}

// Whether programs of the job run, so that there is work to save.
bool is_training(const Json& job) {
  const std::string step = text_of(job, "SecondaryStatus");
  return step == "Training" || step == "Uploading" || step == "Stopping";
}

Result<int> stop(const Options& options, const Session& session) {
  YARD_TRY(const Json job, describe(session, options.job));
  YARD_TRY(session.api.call("sagemaker", "StopTrainingJob", {{"TrainingJobName", options.job}}));
  const Terminal& terminal = session.terminal;
  if (options.wait) {
    const Result<Json> end =
        follow_job(session.api, options.job, {.show_lines = false, .show_status = !options.json},
                   session.pause, terminal);
    if (!end) {
      return end.error();
    }
    terminal.out << (options.json ? end->dump(2) + "\n" : show_end(*end, terminal.color));
    return kDone;
  }
  if (options.json) {
    print_json({{"TrainingJobName", options.job}}, terminal);
  } else {
    terminal.out << "Stopping " << options.job
                 << (is_training(job) ? "; its processes are given time to save their work\n"
                                      : "; its program is not running\n");
  }
  return kDone;
}

Result<int> send_signal(const Options& options, const Session& session) {
  YARD_TRY(describe(session, options.job));
  YARD_TRY(const Json answer,
           session.api.call("trainyard", "SignalTrainingJob",
                            {{"TrainingJobName", options.job}, {"Signal", options.signal}}));
  if (options.json) {
    print_json(answer, session.terminal);
    return kDone;
  }
  std::vector<std::string> hosts;
  for (const Json& host : list_of(answer, "Hosts")) {
    hosts.push_back(host.is_string() ? host.get<std::string>() : std::string());
  }
  session.terminal.out << options.signal << " is on its way to the processes of " << options.job
                       << " on " << join(hosts, ", ") << '\n';
  return kDone;
}

Result<int> remove(const Options& options, const Session& session) {
  YARD_TRY(const Json job, describe(session, options.job));
  if (!has_ended(job)) {
    return Error{.code = Code::kConflict,
                 .message = options.job + " has not ended: it is " + show_status(job) +
                            ". Stop it first: trainyard stop --wait " + options.job};
  }
  YARD_TRY(session.api.call("sagemaker", "DeleteTrainingJob", {{"TrainingJobName", options.job}}));
  if (options.json) {
    print_json({{"TrainingJobName", options.job}}, session.terminal);
  } else {
    session.terminal.out << "Deleted " << options.job << "; what it saved stays where it is\n";
  }
  return kDone;
}

}  // namespace

Result<int> run_verb(const Options& options, const Session& session) {
  switch (options.verb) {
    case Verb::kSubmit:
      return submit(options, session);
    case Verb::kList:
      return list(options, session);
    case Verb::kDescribe:
      return describe_job(options, session);
    case Verb::kLogs:
      return logs(options, session);
    case Verb::kWhy:
      return why(options, session);
    case Verb::kStop:
      return stop(options, session);
    case Verb::kSignal:
      return send_signal(options, session);
    case Verb::kDelete:
      return remove(options, session);
  }
  return Error{.code = Code::kInternal, .message = "unknown verb"};
}

}  // namespace trainyard::cli
