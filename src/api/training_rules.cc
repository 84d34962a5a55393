// SPDX-License-Identifier: Apache-2.0
// The rules of CreateTrainingJob and UpdateTrainingJob. Sources: the API reference of both and of
// the types that they use.
#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include <nlohmann/json.hpp>

#include "api/pattern.h"
#include "api/rules.h"
#include "api/violations.h"
#include "base/text.h"
#include "formats/python_regex.h"

namespace trainyard::api {
namespace {

using Json = nlohmann::json;
using Broken = std::vector<std::string>;

constexpr std::int64_t kMaxKeepAliveSeconds = 3'600;
constexpr std::int64_t kMaxRuntimeSeconds = std::int64_t{28} * 86'400;
constexpr std::int64_t kDefaultRuntimeSeconds = 86'400;
constexpr std::size_t kLongestName = 255;  // of a file

std::string channel_path(std::size_t number, std::string_view member) {
  return "inputDataConfig." + std::to_string(number) + ".member." + std::string(member);
}

void refuse(Broken& broken, std::string_view what, std::string_view path) {
  broken.push_back(std::string(what) + " at '" + std::string(path) +
                   "' is not supported by this server yet");
}

// --- What a job must have although the model calls it optional ---

void main_parts_are_present(const Json& input, Broken& broken) {
  for (const std::string_view part :
       {"AlgorithmSpecification", "ResourceConfig", "StoppingCondition"}) {
    if (at(input, {part}) == nullptr) {
      broken.push_back(missing(camel_case(part)));
    }
  }
}

void one_algorithm_is_named(const Json& input, Broken& broken) {
  const Json* algorithm = object_at(input, {"AlgorithmSpecification"});
  if (algorithm == nullptr) {
    return;
  }
  const bool image = at(*algorithm, {"TrainingImage"}) != nullptr;
  const bool name = at(*algorithm, {"AlgorithmName"}) != nullptr;
  if (image == name) {
    broken.emplace_back(
        "Exactly one of TrainingImage and AlgorithmName must be given at 'algorithmSpecification'");
  } else if (name) {
    refuse(broken, "AlgorithmName", "algorithmSpecification.algorithmName");
  }
}

void instances_are_asked_one_way(const Json& input, Broken& broken) {
  const Json* resources = object_at(input, {"ResourceConfig"});
  if (resources == nullptr) {
    return;
  }
  const bool type = at(*resources, {"InstanceType"}) != nullptr;
  const bool count = at(*resources, {"InstanceCount"}) != nullptr;
  const bool groups = at(*resources, {"InstanceGroups"}) != nullptr;
  if (groups && (type || count)) {
    broken.emplace_back(
        "InstanceGroups excludes InstanceType and InstanceCount at 'resourceConfig'");
  }
  if (groups) {
    refuse(broken, "InstanceGroups", "resourceConfig.instanceGroups");
    return;
  }
  if (!type) {
    broken.push_back(missing("resourceConfig.instanceType"));
  }
  if (!count) {
    broken.push_back(missing("resourceConfig.instanceCount"));
  } else if (number_at(*resources, {"InstanceCount"}) == 0) {
    broken.push_back(violation("0", "resourceConfig.instanceCount",
                               "Member must have value greater than or equal to 1"));
  }
}

// --- Texts ---

void add_nul(const Json& text, const std::string& path, Broken& broken) {
  if (text.is_string() && text.get_ref<const std::string&>().find('\0') != std::string::npos) {
    broken.push_back(violation(shown_value(text), path,
                               "Member must not contain NUL: no argument and no variable can"));
  }
}

// What would reach the program cut off at that place.
void texts_have_no_nul(const Json& input, Broken& broken) {
  for (const std::string_view member : {"HyperParameters", "Environment"}) {
    const Json* map = at(input, {member});
    if (map == nullptr || !map->is_object()) {
      continue;
    }
    for (const auto& [key, value] : map->items()) {
      add_nul(Json(key), camel_case(member), broken);
      add_nul(value, camel_case(member), broken);
    }
  }
  for (const std::string_view member : {"ContainerEntrypoint", "ContainerArguments"}) {
    const Json* list = at(input, {"AlgorithmSpecification", member});
    if (list == nullptr || !list->is_array()) {
      continue;
    }
    for (const Json& text : *list) {
      add_nul(text, "algorithmSpecification." + camel_case(member), broken);
    }
  }
}

// --- Hyperparameters ---

// As the launchers read it: JSON's true and false, in any case, also as a JSON string.
bool is_true_or_false(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const std::string_view word = json.is_string() ? json.get_ref<const std::string&>() : text;
  return equal_ignoring_case(trim(word), "true") || equal_ignoring_case(trim(word), "false");
}

// "yes" would let every host train for itself, and nothing would say so.
void launchers_are_on_or_off(const Json& input, Broken& broken) {
  for (const std::string_view key :
       {"sagemaker_mpi_enabled", "sagemaker_pytorch_ddp_enabled",
        "sagemaker_torch_distributed_enabled", "sagemaker_distributed_dataparallel_enabled"}) {
    const auto value = text_at(input, {"HyperParameters", key});
    if (value.has_value() && !is_true_or_false(*value)) {
      broken.push_back(violation(shown_value(Json(*value)), "hyperParameters." + std::string(key),
                                 "Member must be true or false"));
    }
  }
}

// --- Times ---

void keep_alive_is_at_most_an_hour(const Json& input, Broken& broken) {
  const auto seconds = number_at(input, {"ResourceConfig", "KeepAlivePeriodInSeconds"});
  if (seconds.has_value() && *seconds > kMaxKeepAliveSeconds) {
    broken.push_back(violation(
        std::to_string(*seconds), "resourceConfig.keepAlivePeriodInSeconds",
        "Member must have value less than or equal to " + std::to_string(kMaxKeepAliveSeconds)));
  }
}

void run_time_is_at_most_28_days(const Json& input, Broken& broken) {
  const auto seconds = number_at(input, {"StoppingCondition", "MaxRuntimeInSeconds"});
  if (seconds.has_value() && *seconds > kMaxRuntimeSeconds) {
    broken.push_back(violation(
        std::to_string(*seconds), "stoppingCondition.maxRuntimeInSeconds",
        "Member must have value less than or equal to " + std::to_string(kMaxRuntimeSeconds)));
  }
}

void wait_time_goes_with_spot(const Json& input, Broken& broken) {
  const auto wait = number_at(input, {"StoppingCondition", "MaxWaitTimeInSeconds"});
  const bool spot = true_at(input, {"EnableManagedSpotTraining"});
  if (spot != wait.has_value()) {
    broken.emplace_back(
        spot ? "MaxWaitTimeInSeconds at 'stoppingCondition' is required with "
               "EnableManagedSpotTraining"
             : "MaxWaitTimeInSeconds at 'stoppingCondition' needs EnableManagedSpotTraining");
    return;
  }
  const std::int64_t run = number_at(input, {"StoppingCondition", "MaxRuntimeInSeconds"})
                               .value_or(kDefaultRuntimeSeconds);
  if (wait < run && wait.has_value()) {
    broken.push_back(violation(std::to_string(*wait), "stoppingCondition.maxWaitTimeInSeconds",
                               "Member must have value greater than or equal to "
                               "MaxRuntimeInSeconds, " +
                                   std::to_string(run)));
  }
}

// --- Data ---

void channel_names_are_unique(const Json& input, Broken& broken) {
  std::set<std::string> seen;
  for (const auto& [number, channel] : entries_at(input, {"InputDataConfig"})) {
    const auto name = text_at(*channel, {"ChannelName"});
    if (name.has_value() && !seen.insert(*name).second) {
      broken.push_back(violation(shown_value(Json(*name)), channel_path(number, "channelName"),
                                 "Channel names must be unique"));
    }
  }
}

void channels_have_one_source(const Json& input, Broken& broken) {
  for (const auto& [number, channel] : entries_at(input, {"InputDataConfig"})) {
    const Json* source = object_at(*channel, {"DataSource"});
    if (source == nullptr) {
      continue;
    }
    int given = 0;
    for (const std::string_view kind : {"S3DataSource", "FileSystemDataSource", "DatasetSource"}) {
      const bool present = at(*source, {kind}) != nullptr;
      given += present ? 1 : 0;
      if (present && kind != "S3DataSource") {
        refuse(broken, kind, channel_path(number, "dataSource." + camel_case(kind)));
      }
    }
    if (given != 1) {
      broken.push_back("Exactly one data source must be given at '" +
                       channel_path(number, "dataSource") + "'");
    }
  }
}

void channels_use_what_is_there(const Json& input, Broken& broken) {
  const auto common = text_at(input, {"AlgorithmSpecification", "TrainingInputMode"});
  for (const auto& [number, channel] : entries_at(input, {"InputDataConfig"})) {
    const auto own = text_at(*channel, {"InputMode"});
    const auto mode = own.has_value() ? own : common;
    if (mode == "Pipe" || mode == "FastFile") {
      refuse(broken, *mode + " mode",
             own.has_value() ? channel_path(number, "inputMode")
                             : "algorithmSpecification.trainingInputMode");
    }
    if (text_at(*channel, {"CompressionType"}) == "Gzip") {
      refuse(broken, "Gzip", channel_path(number, "compressionType"));
    }
    if (text_at(*channel, {"RecordWrapperType"}) == "RecordIO") {
      refuse(broken, "RecordIO", channel_path(number, "recordWrapperType"));
    }
  }
}

void s3_sources_use_what_is_there(const Json& input, Broken& broken) {
  for (const auto& [number, channel] : entries_at(input, {"InputDataConfig"})) {
    const Json* source = at(*channel, {"DataSource", "S3DataSource"});
    if (source == nullptr) {
      continue;
    }
    const std::string place = channel_path(number, "dataSource.s3DataSource.");
    const auto type = text_at(*source, {"S3DataType"});
    if (type.has_value() && *type != "S3Prefix") {
      refuse(broken, shown_value(Json(*type)), place + "s3DataType");
    }
    for (const std::string_view member :
         {"AttributeNames", "InstanceGroupNames", "ModelAccessConfig", "HubAccessConfig"}) {
      const Json* found = at(*source, {member});
      if (found != nullptr && found->is_structured() && !found->empty()) {
        refuse(broken, member, place + camel_case(member));
      }
    }
  }
}

// As S3 has it. An address is none, so that no URI of a job leads to another machine.
bool is_bucket_name(std::string_view name) {
  static const Result<Pattern> kForm = Pattern::compile_whole(
      "(?![0-9]{1,3}(?:\\.[0-9]{1,3}){3}\\z)[a-z0-9](?:[a-z0-9-]|\\.(?!\\.))*[a-z0-9]");
  return name.size() >= 3 && name.size() <= 63 && kForm.has_value() && kForm->matches(name);
}

// Why `uri` cannot be a place in the object store; empty when it can.
std::string_view fault_of_uri(std::string_view uri) {
  constexpr std::string_view kScheme = "s3://";
  if (!uri.starts_with(kScheme)) {
    return "Member must start with s3://";
  }
  const std::string_view rest = uri.substr(kScheme.size());
  const std::string_view bucket = rest.substr(0, rest.find('/'));
  if (!is_bucket_name(bucket)) {
    return "Member must name a bucket: 3 to 63 of a-z, 0-9, '.' and '-', with a letter or a digit "
           "at "
           "both ends, and no address";
  }
  return {};
}

void check_uri(const std::optional<std::string>& uri, std::string_view path, Broken& broken) {
  const std::string_view fault = uri.has_value() ? fault_of_uri(*uri) : std::string_view();
  if (uri.has_value() && !fault.empty()) {
    broken.push_back(violation(shown_value(Json(*uri)), path, fault));
  }
}

void uris_are_in_s3(const Json& input, Broken& broken) {
  check_uri(text_at(input, {"OutputDataConfig", "S3OutputPath"}), "outputDataConfig.s3OutputPath",
            broken);
  check_uri(text_at(input, {"CheckpointConfig", "S3Uri"}), "checkpointConfig.s3Uri", broken);
  for (const auto& [number, channel] : entries_at(input, {"InputDataConfig"})) {
    check_uri(text_at(*channel, {"DataSource", "S3DataSource", "S3Uri"}),
              channel_path(number, "dataSource.s3DataSource.s3Uri"), broken);
  }
}

// True when one of the two directories holds the other, or they are the same.
bool overlap(std::string_view a, std::string_view b) {
  const std::string_view shorter = a.size() < b.size() ? a : b;
  const std::string_view longer = a.size() < b.size() ? b : a;
  return longer.starts_with(shorter) &&
         (shorter.ends_with('/') || shorter.size() == longer.size() ||
          longer[shorter.size()] == '/');
}

bool has_long_part(std::string_view path) {
  std::size_t length = 0;
  for (const char c : path) {
    length = c == '/' ? 0 : length + 1;
    if (length > kLongestName) {
      return true;
    }
  }
  return false;
}

void checkpoints_have_their_own_place(const Json& input, Broken& broken) {
  constexpr std::array kReserved = {
      "/opt/ml/input", "/opt/ml/model", "/opt/ml/output", "/opt/ml/code", "/opt/ml/sagemaker",
      "/bin",          "/boot",         "/dev",           "/etc",         "/lib",
      "/lib64",        "/proc",         "/sbin",          "/sys",         "/usr"};
  const auto given = text_at(input, {"CheckpointConfig", "LocalPath"});
  if (!given.has_value()) {
    return;
  }
  const auto complain = [&](std::string_view constraint) {
    broken.push_back(
        violation(shown_value(Json(*given)), "checkpointConfig.localPath", constraint));
  };
  if (!given->starts_with('/') || given->find('\0') != std::string::npos) {
    complain("Member must be an absolute path");
    return;
  }
  std::string path = std::filesystem::path(*given).lexically_normal().string();
  while (path.size() > 1 && path.ends_with('/')) {
    path.pop_back();
  }
  if (has_long_part(path)) {
    complain("Member must not have a part longer than 255 bytes");
    return;
  }
  for (const std::string_view reserved : kReserved) {
    if (overlap(path, reserved)) {
      complain("Member must not overlap the reserved directory " + std::string(reserved));
      return;
    }
  }
}

// --- Metrics ---

void metric_expressions_work(const Json& input, Broken& broken) {
  for (const auto& [number, metric] :
       entries_at(input, {"AlgorithmSpecification", "MetricDefinitions"})) {
    const auto expression = text_at(*metric, {"Regex"});
    if (!expression.has_value()) {
      continue;
    }
    const std::string path =
        "algorithmSpecification.metricDefinitions." + std::to_string(number) + ".member.regex";
    const std::string whose =
        "Member of metric " + shown_value(Json(text_at(*metric, {"Name"}).value_or("")));
    const Result<PythonRegex> regex = PythonRegex::compile(*expression);
    if (!regex) {
      broken.push_back(violation(
          shown_value(Json(*expression)), path,
          whose + " must be a regular expression as Python reads it: " + regex.error().message));
    } else if (regex->group_count() == 0) {
      broken.push_back(violation(shown_value(Json(*expression)), path,
                                 whose + " must have a group, whose text becomes the value"));
    }
  }
}

// --- What would change the job's result, and is not there yet ---

void rare_features_are_refused(const Json& input, Broken& broken) {
  for (const std::string_view part :
       {"ServerlessJobConfig", "MlflowConfig", "ModelPackageConfig", "TensorBoardOutputConfig"}) {
    if (at(input, {part}) != nullptr) {
      refuse(broken, part, camel_case(part));
    }
  }
  for (const std::string_view member :
       {"TrainingPlanArn", "InstancePlacementConfig", "InstancePreferences"}) {
    if (at(input, {"ResourceConfig", member}) != nullptr) {
      refuse(broken, member, "resourceConfig." + camel_case(member));
    }
  }
  if (text_at(input, {"AlgorithmSpecification", "TrainingImageConfig",
                      "TrainingRepositoryAccessMode"}) == "Vpc") {
    refuse(broken, "Vpc",
           "algorithmSpecification.trainingImageConfig.trainingRepositoryAccessMode");
  }
}

// --- Updates ---

void something_is_updated(const Json& input, Broken& broken) {
  constexpr std::array kParts = {"ProfilerConfig", "ProfilerRuleConfigurations", "ResourceConfig",
                                 "RemoteDebugConfig"};
  if (std::ranges::none_of(kParts,
                           [&](const char* part) { return at(input, {part}) != nullptr; })) {
    broken.emplace_back(
        "At least one of ProfilerConfig, ProfilerRuleConfigurations, ResourceConfig and "
        "RemoteDebugConfig must be given");
  }
}

void remote_debugging_is_refused(const Json& input, Broken& broken) {
  if (true_at(input, {"RemoteDebugConfig", "EnableRemoteDebug"})) {
    refuse(broken, "EnableRemoteDebug", "remoteDebugConfig.enableRemoteDebug");
  }
}

constexpr Rule kTrainingJobRules[] = {
    main_parts_are_present,
    one_algorithm_is_named,
    instances_are_asked_one_way,
    texts_have_no_nul,
    launchers_are_on_or_off,
    keep_alive_is_at_most_an_hour,
    run_time_is_at_most_28_days,
    wait_time_goes_with_spot,
    channel_names_are_unique,
    channels_have_one_source,
    channels_use_what_is_there,
    s3_sources_use_what_is_there,
    uris_are_in_s3,
    checkpoints_have_their_own_place,
    metric_expressions_work,
    tags_are_legal,
    remote_debugging_is_refused,
    rare_features_are_refused,
};

constexpr Rule kUpdateRules[] = {
    something_is_updated,
    keep_alive_is_at_most_an_hour,
    remote_debugging_is_refused,
};

}  // namespace

std::span<const Rule> training_job_update_rules() {
  return kUpdateRules;
}

std::span<const Rule> training_job_rules() {
  return kTrainingJobRules;
}

}  // namespace trainyard::api
