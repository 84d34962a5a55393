// SPDX-License-Identifier: Apache-2.0
// Jobs and facts as values in a given stage, and decide() run until it rests, for tests of the pure
// parts.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "control/decide/decide.h"
#include "control/job/job_state.h"

namespace trainyard::control {

inline constexpr WallTime kTestTime{Duration(1'796'000'000'000)};

inline Now after(std::chrono::milliseconds time) {
  return {.wall = kTestTime + time, .steady = SteadyTime(std::chrono::hours(1) + time)};
}

inline nlohmann::json job_request(int instances) {
  return {{"AlgorithmSpecification", {{"TrainingImage", "pytorch"}, {"TrainingInputMode", "File"}}},
          {"RoleArn", "arn:aws:iam::123456789012:role/Demo"},
          {"OutputDataConfig", {{"S3OutputPath", "s3://bucket/out/"}}},
          {"ResourceConfig",
           {{"InstanceType", "ml.m5.large"}, {"InstanceCount", instances}, {"VolumeSizeInGB", 10}}},
          {"StoppingCondition", {{"MaxRuntimeInSeconds", 600}}}};
}

inline Job new_job(const std::string& name, int instances = 2) {
  Job job;
  job.name = name;
  job.arn = "arn:aws:sagemaker:us-east-1:123456789012:training-job/" + name;
  job.instances = instances;
  job.request = job_request(instances);
  begin(job, "Starting the training job", kTestTime);
  return job;
}

inline Job job_in(Stage stage, int instances = 2) {
  Job job = new_job("demo", instances);
  job.stage = stage;
  job.launched = kTestTime;
  if (holds_capacity(stage)) {
    open_attempt(job, kTestTime);
  }
  return job;
}

// Its next platform fault is the last.
inline Job without_repairs(Job job) {
  while (static_cast<int>(job.attempts.size()) < max_attempts(job)) {
    close_attempt(job, "a fault before", "algo-1", kTestTime);
    job.attempts.back().end = kTestTime - std::chrono::minutes(1);  // another event
    ++job.epoch;
    open_attempt(job, kTestTime);
  }
  return job;
}

// In kRunning, having come as far as `secondary`.
inline Job running_job(Secondary secondary, int instances = 2) {
  Job job = job_in(Stage::kRunning, instances);
  if (secondary >= Secondary::kDownloading) {
    set_status(job, Secondary::kDownloading, "Downloading input data", kTestTime);
  }
  if (secondary >= Secondary::kTraining) {
    set_status(job, Secondary::kTraining, "Training", kTestTime);
  }
  return job;
}

// All instances in one phase, heard of just now.
inline Facts facts_in(wire::Phase phase, int instances = 2) {
  Facts facts{.launched = after({})};
  for (int i = 0; i < instances; ++i) {
    facts.instances.push_back({.host = host_name(i), .phase = phase, .last_report = after({})});
  }
  return facts;
}

inline wire::Exit exit_with(int code, std::chrono::milliseconds at = {}) {
  wire::Exit exit;
  exit.code = code;
  exit.at = kTestTime + at;
  return exit;
}

inline wire::Exit with_artifacts(wire::Exit exit) {
  exit.has_model = exit.has_output = true;
  return exit;
}

inline void end(InstanceFacts& instance, wire::Exit exit) {
  instance.phase = wire::Phase::kEnded;
  instance.exit = std::move(exit);
}

inline Outcome outcome_in(const Job& job) {
  return job.outcome.value_or(Outcome{.reason = "no outcome yet"});
}

inline const Limits kTestLimits{.stop_grace = std::chrono::seconds(120),
                                .upload = std::chrono::hours(1)};

inline std::vector<std::string> decided(const Job& job, const Facts& facts, const Now& now,
                                        const CapacityView& view = {}) {
  std::vector<std::string> lines;
  for (const Action& action : decide(job, facts, view, kTestLimits, now)) {
    lines.push_back(describe(action));
  }
  return lines;
}

// Applies what is decided until nothing is; all actions on the way.
inline std::vector<Action> settle(Job& job, Facts& facts, const Now& now,
                                  const CapacityView& view = {}) {
  std::vector<Action> all;
  while (true) {
    const std::vector<Action> actions = decide(job, facts, view, kTestLimits, now);
    if (actions.empty() || all.size() > 100) {
      return all;
    }
    for (const Action& action : actions) {
      apply(action, now, job, facts);
      all.push_back(action);
    }
  }
}

}  // namespace trainyard::control
