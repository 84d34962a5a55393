// SPDX-License-Identifier: Apache-2.0
#include "control/operations/describe_job.h"

#include <algorithm>

#include "api/floats.h"
#include "api/timestamps.h"
#include "control/operations/requests.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

// Members of the request that the answer repeats as they came. Not in it: TrainingJobName, Tags.
constexpr const char* kEchoed[] = {"AlgorithmSpecification",
                                   "CheckpointConfig",
                                   "DebugHookConfig",
                                   "DebugRuleConfigurations",
                                   "Environment",
                                   "ExperimentConfig",
                                   "HyperParameters",
                                   "InfraCheckConfig",
                                   "InputDataConfig",
                                   "OutputDataConfig",
                                   "ProfilerConfig",
                                   "ProfilerRuleConfigurations",
                                   "RemoteDebugConfig",
                                   "ResourceConfig",
                                   "RetryStrategy",
                                   "RoleArn",
                                   "StoppingCondition",
                                   "TensorBoardOutputConfig",
                                   "VpcConfig"};
constexpr const char* kSwitches[] = {
    "EnableNetworkIsolation", "EnableInterContainerTrafficEncryption", "EnableManagedSpotTraining"};
constexpr int kDefaultVolumeGb = 30;

// A null member counts as absent, as in validation.
bool has(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && !found->is_null();
}

void set_default(json& object, const char* name, json value) {
  if (!has(object, name)) {
    object[name] = std::move(value);
  }
}

json echo(const Job& job) {
  json out = json::object();
  for (const char* name : kEchoed) {
    if (has(job.request, name)) {
      out[name] = job.request.at(name);
    }
  }
  for (const char* name : kSwitches) {
    out[name] = has(job.request, name) ? job.request.at(name) : json(false);
  }
  set_default(out["OutputDataConfig"], "KmsKeyId", "");  // SDK v2's attach() reads it
  set_default(out["OutputDataConfig"], "CompressionType", "GZIP");
  set_default(out["ResourceConfig"], "VolumeSizeInGB", kDefaultVolumeGb);
  set_default(out["StoppingCondition"], "MaxRuntimeInSeconds", max_runtime(job).count());
  if (has(out, "AlgorithmSpecification")) {
    set_default(out["AlgorithmSpecification"], "EnableSageMakerMetricsTimeSeries", false);
  }
  return out;
}

json transitions_json(const Job& job) {
  json list = json::array();
  for (const Transition& transition : job.transitions) {
    json item = {{"Status", std::string(name_of(transition.status))},
                 {"StartTime", api::to_timestamp(transition.start)},
                 {"StatusMessage", transition.message}};
    if (transition.end) {
      item["EndTime"] = api::to_timestamp(*transition.end);
    }
    list.push_back(std::move(item));
  }
  return list;
}

// Ours, beyond the service's shape: clients ignore what they do not know.
json attempts_json(const Job& job) {
  json list = json::array();
  for (const Attempt& attempt : job.attempts) {
    json item = {{"Epoch", attempt.epoch}, {"StartTime", api::to_timestamp(attempt.start)}};
    if (attempt.end) {
      item["EndTime"] = api::to_timestamp(*attempt.end);
    }
    if (!attempt.cause.empty()) {
      item["Cause"] = full_cause(attempt.cause, attempt.also_lost);
    }
    if (!attempt.host.empty()) {
      item["Host"] = attempt.host;
    }
    list.push_back(std::move(item));
  }
  return list;
}

// In the order of the definitions, of which there are at most as many as the answer may hold.
json final_metrics(const Job& job, const std::vector<Series>& metrics) {
  std::vector<const Series*> found;
  json list = json::array();
  for (const std::string& name : metric_names(job.request)) {
    const auto series = std::ranges::find(metrics, name, &Series::metric);
    if (series == metrics.end() || std::ranges::find(found, &*series) != found.end()) {
      continue;
    }
    found.push_back(&*series);
    list.push_back({{"MetricName", name},
                    {"Value", api::to_float(series->last.value)},
                    {"Timestamp", api::to_timestamp(series->last.at)}});
  }
  return list;
}

void add_times(const Job& job, json& out) {
  out["CreationTime"] = api::to_timestamp(job.created);
  out["LastModifiedTime"] = api::to_timestamp(job.modified);
  if (!job.training_start) {
    return;
  }
  const WallTime start = *job.training_start;
  out["TrainingStartTime"] = api::to_timestamp(start);
  if (!job.training_end || job.stage != Stage::kDone) {
    return;
  }
  const WallTime end = *job.training_end;
  out["TrainingEndTime"] = api::to_timestamp(end);
  const auto time = std::chrono::round<std::chrono::seconds>(end - start);
  const auto seconds = std::max<std::int64_t>(1, time.count());  // the model's least
  out["TrainingTimeInSeconds"] = seconds;
  out["BillableTimeInSeconds"] = seconds;  // times the instances is what a bill would say
}

}  // namespace

json describe_job(const Job& job, const std::vector<Series>& metrics) {
  json out = echo(job);
  out["TrainingJobName"] = job.name;
  out["TrainingJobArn"] = job.arn;
  out["TrainingJobStatus"] = std::string(status_name(job.secondary));
  out["SecondaryStatus"] = std::string(name_of(job.secondary));
  out["SecondaryStatusTransitions"] = transitions_json(job);
  out["Attempts"] = attempts_json(job);
  // The model requires the place from the start; whether something is there we say beside it.
  out["ModelArtifacts"] = {{"S3ModelArtifacts", model_uri(job)}};
  const bool is_known = job.has_model || job.missing.empty() || job.secondary == Secondary::kFailed;
  if (job.stage == Stage::kDone && is_known) {
    out["HasModelArtifacts"] = job.has_model;
  }
  if (job.secondary == Secondary::kFailed && job.outcome) {
    out["FailureReason"] = job.outcome->reason;
  }
  if (json values = final_metrics(job, metrics); !values.empty()) {
    out["FinalMetricDataList"] = std::move(values);
  }
  add_times(job, out);
  return out;
}

json summary_json(const JobSummary& job) {
  json out = {{"TrainingJobName", job.name},
              {"TrainingJobArn", job.arn},
              {"CreationTime", api::to_timestamp(job.created)},
              {"LastModifiedTime", api::to_timestamp(job.modified)},
              {"TrainingJobStatus", job.status},
              {"SecondaryStatus", job.secondary_status}};
  if (job.ended) {
    out["TrainingEndTime"] = api::to_timestamp(*job.ended);
  }
  return out;
}

json tags_json(const std::vector<Tag>& tags) {
  json list = json::array();
  for (const Tag& tag : tags) {
    list.push_back({{"Key", tag.key}, {"Value", tag.value}});
  }
  return list;
}

}  // namespace trainyard::control
