// SPDX-License-Identifier: Apache-2.0
#include "instance/launch/contract.h"

#include "base/text.h"
#include "instance/launch/request.h"
#include "instance/transfer/checkpoint_place.h"

namespace trainyard::instance {

using nlohmann::json;

namespace {

std::vector<std::string> host_names(const wire::Assignment& assignment) {
  std::vector<std::string> names;
  names.reserve(assignment.hosts.size());
  for (const wire::Host& host : assignment.hosts) {
    names.push_back(host.name);
  }
  return names;
}

std::string pretty(const json& value) {
  return value.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

bool names_loopback_server(std::string_view configuration) {
  for (const std::string_view line : split(configuration, '\n')) {
    const std::string_view text = trim(line);
    if (text.starts_with("nameserver") && trim(text.substr(10)).starts_with("127.")) {
      return true;
    }
  }
  return false;
}

}  // namespace

json resource_config(const wire::Assignment& assignment) {
  const std::vector<std::string> hosts = host_names(assignment);
  const std::string type = instance_type(assignment.request);
  return {{"current_host", assignment.host},
          {"current_instance_type", type},
          {"current_group_name", "homogeneousCluster"},
          {"hosts", hosts},
          {"instance_groups", json::array({{{"instance_group_name", "homogeneousCluster"},
                                            {"instance_type", type},
                                            {"hosts", hosts}}})},
          {"network_interface_name", assignment.network_interface}};
}

json input_data_config(const json& request) {
  json channels = json::object();
  const std::string mode =
      text_at(member(request, "AlgorithmSpecification"), "TrainingInputMode", "File");
  for (const json& channel : member(request, "InputDataConfig")) {
    const json& source = member(channel, "DataSource", "S3DataSource");
    json entry = {
        {"TrainingInputMode", text_at(channel, "InputMode", mode)},
        {"S3DistributionType", text_at(source, "S3DataDistributionType", "FullyReplicated")},
        {"RecordWrapperType", text_at(channel, "RecordWrapperType", "None")}};
    if (const std::string type = text_at(channel, "ContentType"); !type.empty()) {
      entry["ContentType"] = type;
    }
    channels[text_at(channel, "ChannelName")] = std::move(entry);
  }
  return channels;
}

std::vector<ContractFile> contract_files(const wire::Assignment& assignment) {
  json hyperparameters = json::object();
  for (const auto& [key, value] : texts_at(assignment.request, "HyperParameters")) {
    hyperparameters[key] = value;
  }
  const json& metrics = member(assignment.request, "AlgorithmSpecification", "MetricDefinitions");
  std::vector<ContractFile> files = {
      {"input/config/hyperparameters.json", pretty(hyperparameters)},
      {"input/config/resourceconfig.json", pretty(resource_config(assignment))},
      {"input/config/inputdataconfig.json", pretty(input_data_config(assignment.request))},
      {"input/config/metric-definition-regex.json",
       pretty(metrics.is_array() ? metrics : json::array())},
      {"input/config/trainingjobconfig.json", pretty(assignment.request)}};
  if (const json checkpoints = checkpoint_config(assignment.request); !checkpoints.is_null()) {
    files.push_back({"input/config/checkpointconfig.json", pretty(checkpoints)});
  }
  return files;
}

std::vector<std::string> contract_directories(const wire::Assignment& assignment) {
  std::vector<std::string> directories = {"input",       "input/config", "input/data",
                                          "code",        "model",        "output",
                                          "output/data", "checkpoints",  "output/intermediate"};
  for (const json& channel : member(assignment.request, "InputDataConfig")) {
    directories.push_back("input/data/" + text_at(channel, "ChannelName"));
  }
  return directories;
}

std::string hosts_file(const wire::Assignment& assignment) {
  std::string text = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n";
  for (const wire::Host& host : assignment.hosts) {
    text += host.address + "\t" + host.name + "\n";
  }
  return text;
}

std::string resolver_file(std::string_view machine, std::string_view upstream) {
  const bool stub = names_loopback_server(machine);
  return std::string(stub && !upstream.empty() ? upstream : machine);
}

}  // namespace trainyard::instance
