// SPDX-License-Identifier: Apache-2.0
#include "control/job/job.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/text.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

// The service's default when the request has no limit.
constexpr std::chrono::seconds kDefaultMaxRuntime{86'400};
// Repairs without a RetryStrategy. The service repairs a cluster on its own, too.
constexpr int kDefaultRepairs = 2;

const json& member(const json& object, std::string_view name) {
  static const json kNothing;
  if (!object.is_object()) {
    return kNothing;
  }
  const auto found = object.find(name);
  return found == object.end() ? kNothing : *found;
}

std::optional<std::chrono::seconds> limit_in(const Job& job, std::string_view name) {
  const json& limit = member(member(job.request, "StoppingCondition"), name);
  return limit.is_number() ? std::optional(std::chrono::seconds(limit.get<std::int64_t>()))
                           : std::nullopt;
}

}  // namespace

std::string_view name_of(Secondary secondary) {
  switch (secondary) {
    case Secondary::kStarting:
      return "Starting";
    case Secondary::kDownloading:
      return "Downloading";
    case Secondary::kTraining:
      return "Training";
    case Secondary::kUploading:
      return "Uploading";
    case Secondary::kStopping:
      return "Stopping";
    case Secondary::kCompleted:
      return "Completed";
    case Secondary::kFailed:
      return "Failed";
    case Secondary::kStopped:
      return "Stopped";
    case Secondary::kMaxRuntimeExceeded:
      return "MaxRuntimeExceeded";
    case Secondary::kMaxWaitTimeExceeded:
      return "MaxWaitTimeExceeded";
  }
  check_failed("secondary", "a status outside its enumeration");
}

std::string_view status_name(Secondary secondary) {
  switch (secondary) {
    case Secondary::kStopping:
      return "Stopping";
    case Secondary::kCompleted:
      return "Completed";
    case Secondary::kFailed:
      return "Failed";
    case Secondary::kStopped:
    case Secondary::kMaxRuntimeExceeded:
    case Secondary::kMaxWaitTimeExceeded:
      return "Stopped";
    default:
      return "InProgress";
  }
}

bool is_terminal(Secondary secondary) {
  return secondary >= Secondary::kCompleted;
}

std::string_view name_of(Stage stage) {
  switch (stage) {
    case Stage::kNew:
      return "New";
    case Stage::kChecking:
      return "Checking";
    case Stage::kWaiting:
      return "Waiting";
    case Stage::kPreparing:
      return "Preparing";
    case Stage::kLaunching:
      return "Launching";
    case Stage::kRegrouping:
      return "Regrouping";
    case Stage::kRunning:
      return "Running";
    case Stage::kRecovering:
      return "Recovering";
    case Stage::kRelaunching:
      return "Relaunching";
    case Stage::kEnding:
      return "Ending";
    case Stage::kUploading:
      return "Uploading";
    case Stage::kMerging:
      return "Merging";
    case Stage::kReleasing:
      return "Releasing";
    case Stage::kDone:
      return "Done";
  }
  check_failed("stage", "a stage outside its enumeration");
}

bool holds_capacity(Stage stage) {
  return stage >= Stage::kPreparing && stage < Stage::kDone;
}

bool has_instances(Stage stage) {
  return stage >= Stage::kLaunching && stage < Stage::kMerging && stage != Stage::kRegrouping;
}

bool has_call(Stage stage) {
  switch (stage) {
    case Stage::kChecking:
    case Stage::kPreparing:
    case Stage::kLaunching:
    case Stage::kRegrouping:
    case Stage::kRelaunching:
    case Stage::kMerging:
    case Stage::kReleasing:
      return true;
    default:
      return false;
  }
}

std::string host_name(int index) {
  return fmt::format("algo-{}", index + 1);
}

std::string some_of(std::vector<std::string> names, std::size_t named) {
  std::string more;
  if (names.size() > named) {
    more = fmt::format(" and {} more", names.size() - named);
    names.resize(named);
  }
  return join(names, ", ") + more;
}

std::string full_cause(std::string_view cause, const std::vector<std::string>& also_lost) {
  constexpr std::size_t kNamed = 2;
  if (also_lost.empty()) {
    return std::string(cause);
  }
  if (also_lost.size() > kNamed) {
    return fmt::format("{}, and so were {}", cause, some_of(also_lost, kNamed));
  }
  return fmt::format("{}, and so {} {}", cause, also_lost.size() == 1 ? "was" : "were",
                     join(also_lost, " and "));
}

std::chrono::seconds max_runtime(const Job& job) {
  return limit_in(job, "MaxRuntimeInSeconds").value_or(kDefaultMaxRuntime);
}

std::optional<std::chrono::seconds> max_wait(const Job& job) {
  return limit_in(job, "MaxWaitTimeInSeconds");
}

std::optional<std::chrono::seconds> max_pending(const Job& job) {
  return limit_in(job, "MaxPendingTimeInSeconds");
}

int max_attempts(const Job& job) {
  const json& repairs = member(member(job.request, "RetryStrategy"), "MaximumRetryAttempts");
  return 1 + (repairs.is_number() ? repairs.get<int>() : kDefaultRepairs);
}

std::string with_warning(std::string shown, const Job& job) {
  const json& is_spot = member(job.request, "EnableManagedSpotTraining");
  if (is_spot == json(true) && !member(job.request, "CheckpointConfig").is_object()) {
    shown +=
        "; warning: EnableManagedSpotTraining without CheckpointConfig: after an interruption the "
        "job begins anew, for nothing of /opt/ml/checkpoints is kept in S3";
  }
  return shown;
}

GangId gang_of(const Job& job) {
  return {.job = job.name, .epoch = job.gang_epoch};
}

bool is_isolated(const Job& job) {
  const json& isolated = member(job.request, "EnableNetworkIsolation");
  return isolated.is_boolean() && isolated.get<bool>();
}

bool is_compressed(const Job& job) {
  return member(member(job.request, "OutputDataConfig"), "CompressionType") != json("NONE");
}

std::string artifact_prefix(const Job& job) {
  const json& path = member(member(job.request, "OutputDataConfig"), "S3OutputPath");
  std::string base = path.is_string() ? path.get<std::string>() : std::string();
  while (base.ends_with('/')) {
    base.pop_back();
  }
  return fmt::format("{}/{}/output", base, job.name);
}

std::string model_uri(const Job& job) {
  return artifact_prefix(job) + (is_compressed(job) ? "/model.tar.gz" : "/model/");
}

std::string log_stream(const Job& job, std::string_view host) {
  const WallTime start = job.launched.value_or(job.created);
  const auto seconds = std::chrono::floor<std::chrono::seconds>(start.time_since_epoch());
  return fmt::format("{}/{}-{}", job.name, host, seconds.count());
}

json hyperparameters(const Job& job) {
  const json& parameters = member(job.request, "HyperParameters");
  return parameters.is_object() ? parameters : json::object();
}

}  // namespace trainyard::control
