// SPDX-License-Identifier: Apache-2.0
#include "comm/rendezvous/resource_config.h"

#include <algorithm>
#include <limits>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "formats/json.h"

namespace trainyard::comm {
namespace {

Error wrong(const std::string& what) {
  return {Code::kInvalidArgument, "resourceconfig.json: " + what};
}

Result<std::vector<std::string>> hosts_of(const nlohmann::json& config) {
  const auto found = config.find("hosts");
  if (found == config.end() || !found->is_array() || found->empty()) {
    return wrong("\"hosts\" is no list of names");
  }
  std::vector<std::string> hosts;
  for (const nlohmann::json& host : *found) {
    if (!host.is_string()) {
      return wrong("\"hosts\" is no list of names");
    }
    const std::string& name = host.get_ref<const std::string&>();
    if (std::ranges::find(hosts, name) != hosts.end()) {
      return wrong(fmt::format("the host \"{}\" comes twice", name));
    }
    hosts.push_back(name);
  }
  return hosts;
}

std::string text_of(const nlohmann::json& config, const char* key) {
  const auto found = config.find(key);
  return found != config.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

Result<JobPlace> place_in_job(std::string_view text, std::int32_t local_rank,
                              std::int32_t local_size) {
  if (local_size < 1 || local_rank < 0 || local_rank >= local_size) {
    return Error{Code::kInvalidArgument,
                 fmt::format("local rank {} of {} on a host: they count from 0 to the number less "
                             "one",
                             local_rank, local_size)};
  }
  auto config = parse_json(text);
  if (!config) {
    return wrong(config.error().message);
  }
  if (!config->is_object()) {
    return wrong("it is no object");
  }
  YARD_TRY(const std::vector<std::string> hosts, hosts_of(*config));
  const std::string current = text_of(*config, "current_host");
  const auto own = std::ranges::find(hosts, current);
  if (own == hosts.end()) {
    return wrong(fmt::format("\"current_host\" is \"{}\", which is not among \"hosts\"", current));
  }
  const auto size = static_cast<std::int64_t>(hosts.size()) * local_size;
  if (size > std::numeric_limits<std::int32_t>::max()) {
    return wrong(fmt::format("{} hosts with {} ranks each are too many", hosts.size(), local_size));
  }
  return JobPlace{.rank = static_cast<std::int32_t>(own - hosts.begin()) * local_size + local_rank,
                  .size = static_cast<std::int32_t>(size),
                  .leader = hosts.front(),
                  .interface = text_of(*config, "network_interface_name")};
}

}  // namespace trainyard::comm
