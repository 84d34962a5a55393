// SPDX-License-Identifier: Apache-2.0
#include "instance/launch/script_env.h"

#include "base/text.h"
#include "instance/launch/contract.h"
#include "instance/launch/request.h"
#include "instance/launch/variable_names.h"

namespace trainyard::instance {

using nlohmann::json;

namespace {

std::string compact(const json& value) {
  return value.dump(-1, ' ', true, json::error_handler_t::replace);
}

std::string module_name(const std::string& program) {
  return program.ends_with(".py") ? program.substr(0, program.size() - 3) : program;
}

json values_of(const Hyperparameters& parameters) {
  json object = json::object();
  for (const Hyperparameter& parameter : parameters) {
    object[parameter.key] = parameter.value;
  }
  return object;
}

Variables channel_directories(const json& request) {
  Variables channels;
  for (const json& channel : member(request, "InputDataConfig")) {
    const std::string name = text_at(channel, "ChannelName");
    channels[name] = std::string(kInputDirectory) + "/" + name;
  }
  return channels;
}

// What SM_TRAINING_ENV holds beyond the plain directory names.
json training_environment(const wire::Assignment& assignment, const Hyperparameters& all,
                          const ScriptFacts& script, const json& resources) {
  json hosts = resources["hosts"];
  return {{"additional_framework_parameters", values_of(platforms(all))},
          {"channel_input_dirs", channel_directories(assignment.request)},
          {"current_host", assignment.host},
          {"current_instance_group", "homogeneousCluster"},
          {"current_instance_group_hosts", hosts},
          {"current_instance_type", resources["current_instance_type"]},
          {"distribution_hosts", hosts},
          {"distribution_instance_groups", json::array()},
          {"framework_module", nullptr},
          {"hosts", hosts},
          {"hyperparameters", values_of(users(all))},
          {"input_config_dir", "/opt/ml/input/config"},
          {"input_data_config", input_data_config(assignment.request)},
          {"input_dir", "/opt/ml/input"},
          {"instance_groups", json::array({"homogeneousCluster"})},
          {"instance_groups_dict", {{"homogeneousCluster", resources["instance_groups"][0]}}},
          {"is_hetero", false},
          {"is_master", !assignment.hosts.empty() && assignment.hosts[0].name == assignment.host},
          {"is_modelparallel_enabled", nullptr},
          {"job_name", assignment.job_name},
          {"log_level", 20},
          {"master_hostname", assignment.hosts.empty() ? "" : assignment.hosts[0].name},
          {"model_dir", "/opt/ml/model"},
          {"module_dir", script.submit_directory},
          {"module_name", module_name(script.program)},
          {"network_interface_name", assignment.network_interface},
          {"num_cpus", assignment.num_cpus},
          {"num_gpus", assignment.gpus.size()},
          {"num_neurons", 0},
          {"output_data_dir", "/opt/ml/output/data"},
          {"output_dir", "/opt/ml/output"},
          {"output_intermediate_dir", "/opt/ml/output/intermediate"},
          {"resource_config", resources},
          {"user_entry_point", script.program}};
}

NamedVariables named_channels(const wire::Assignment& assignment) {
  return name_variables("SM_CHANNEL_", "channel", channel_directories(assignment.request));
}

NamedVariables named_hyperparameters(const Hyperparameters& all) {
  Variables texts;
  for (const Hyperparameter& parameter : users(all)) {
    texts[parameter.key] = environment_text(parameter);
  }
  return name_variables("SM_HP_", "hyperparameter", texts);
}

std::string log_level(const Hyperparameters& all) {
  const std::string level = find_text(all, "sagemaker_container_log_level");
  return level.empty() ? "20" : level;
}

}  // namespace

Variables script_variables(const wire::Assignment& assignment, const Hyperparameters& all,
                           const ScriptFacts& script) {
  const json resources = resource_config(assignment);
  const json training = training_environment(assignment, all, script, resources);
  const Hyperparameters own = users(all);
  json channels = json::array();
  for (const auto& [name, path] : channel_directories(assignment.request)) {
    channels.push_back(name);
  }
  Variables out = {{"SM_HPS", as_json_object(own)},
                   {"SM_USER_ARGS", compact(command_line(own))},
                   {"SM_CHANNELS", compact(channels)},
                   {"SM_FRAMEWORK_MODULE", ""},
                   {"SM_FRAMEWORK_PARAMS", as_json_object(platforms(all))},
                   {"SM_LOG_LEVEL", log_level(all)},
                   {"SM_TRAINING_ENV", compact(training)},
                   {"SAGEMAKER_JOB_NAME", assignment.job_name},
                   {"SAGEMAKER_REGION", assignment.region}};
  for (const char* name : {"hosts",
                           "current_host",
                           "network_interface_name",
                           "current_instance_type",
                           "current_instance_group",
                           "current_instance_group_hosts",
                           "instance_groups",
                           "instance_groups_dict",
                           "distribution_instance_groups",
                           "is_hetero",
                           "num_cpus",
                           "num_gpus",
                           "num_neurons",
                           "input_dir",
                           "input_config_dir",
                           "input_data_config",
                           "output_dir",
                           "output_data_dir",
                           "output_intermediate_dir",
                           "model_dir",
                           "module_dir",
                           "module_name",
                           "user_entry_point",
                           "resource_config"}) {
    const json& value = training[name];
    out["SM_" + upper(name)] = value.is_string() ? value.get<std::string>() : compact(value);
  }
  out.merge(named_channels(assignment).variables);
  out.merge(named_hyperparameters(all).variables);
  return out;
}

std::vector<std::string> naming_notes(const wire::Assignment& assignment,
                                      const Hyperparameters& all) {
  std::vector<std::string> notes = named_channels(assignment).notes;
  const std::vector<std::string> more = named_hyperparameters(all).notes;
  notes.insert(notes.end(), more.begin(), more.end());
  return notes;
}

}  // namespace trainyard::instance
