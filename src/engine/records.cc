// SPDX-License-Identifier: Apache-2.0
#include "engine/records.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/text.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;

constexpr std::string_view kGangFile = "gang.json";
constexpr int kVersion = 1;

json to_json(const GangRecord& gang) {
  return json{{"version", kVersion},
              {"job", gang.id.job},
              {"epoch", gang.id.epoch},
              {"tag", gang.network.tag},
              {"subnet", sandbox::to_string(gang.network.subnet)},
              {"instances", gang.network.instances},
              {"isolated", gang.network.isolated},
              {"boot", gang.boot},
              {"server_url", gang.server_url}};
}

// The library's accessors throw for a missing or wrongly typed member; nothing else here does.
template <typename T>
Result<T> parse(const Path& file, T (*read)(const json&)) {
  YARD_TRY(const std::string text, read_file(file));
  try {
    return read(json::parse(text));
  } catch (const json::exception& broken) {
    return Error{Code::kCorrupt, fmt::format("{}: {}", file.string(), broken.what())};
  }
}

GangRecord read_gang(const json& value) {
  return {.id = {.job = value.at("job").get<std::string>(), .epoch = value.at("epoch").get<int>()},
          .network = {.tag = value.at("tag").get<std::string>(),
                      .subnet = sandbox::parse_prefix(value.at("subnet").get<std::string>())
                                    .value_or(sandbox::Ipv4Prefix{}),  // plan_network refuses it
                      .instances = value.at("instances").get<int>(),
                      .isolated = value.at("isolated").get<bool>()},
          .boot = value.at("boot").get<std::string>(),
          .server_url = value.at("server_url").get<std::string>()};
}

// A record of the version before has no epoch: its gang lived for one attempt.
constexpr int kEpochOfGang = 0;

InstanceRecord read_instance(const json& value) {
  return {.host = value.at("host").get<std::string>(),
          .process = {.pid = value.at("pid").get<pid_t>(),
                      .start_time = value.at("start_time").get<std::uint64_t>()},
          .epoch = value.value("epoch", kEpochOfGang)};
}

std::vector<Path> entries_of(const Path& directory) {
  std::vector<Path> paths;
  std::error_code failure;
  for (std::filesystem::directory_iterator entry(directory, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    paths.push_back(entry->path());
  }
  return paths;
}

void remove_if_empty(const Path& directory) {
  std::error_code not_empty;
  std::filesystem::remove(directory, not_empty);
}

// Of a gang whose server died before its record had its name, or after that was removed: nothing
// else is there then. False: something is.
bool remove_unwritten(const Path& gang) {
  for (const Path& entry : entries_of(gang)) {
    std::error_code failure;
    if (is_unfinished_file(entry.filename().string()) &&
        std::filesystem::is_regular_file(std::filesystem::symlink_status(entry, failure))) {
      std::filesystem::remove(entry, failure);
    }
  }
  remove_if_empty(gang);
  std::error_code failure;
  return !std::filesystem::exists(gang, failure);
}

Result<void> remove_file(const Path& file) {
  std::error_code failure;
  std::filesystem::remove(file, failure);
  return failure ? errno_error(fmt::format("remove {}", file.string()), failure.value())
                 : Result<void>();
}

}  // namespace

Result<void> check_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
  };
  if (name.empty() || name.size() > 63 || !std::all_of(name.begin(), name.end(), allowed)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("'{}' is no name for a job or a host: 1 to 63 letters, digits and "
                             "hyphens",
                             name)};
  }
  return {};
}

Path Records::gang_directory(const control::GangId& id) const {
  return run_directory_ / id.job / std::to_string(id.epoch);
}

Path Records::scratch(const control::GangId& id, const std::string& host) const {
  return gang_directory(id) / host;
}

// No host has this name: a number follows "algo-" (LocalEngine::link_of).
Path Records::meeting(const control::GangId& id) const {
  return gang_directory(id) / "meeting";
}

Result<void> Records::write(const GangRecord& gang) const {
  const Path directory = gang_directory(gang.id);
  YARD_TRY(make_directories(directory, 0700));
  return write_file_durably(directory / kGangFile, to_json(gang).dump(2));
}

Result<void> Records::write(const control::GangId& id, const InstanceRecord& instance) const {
  const json value{{"host", instance.host},
                   {"epoch", instance.epoch},
                   {"pid", instance.process.pid},
                   {"start_time", instance.process.start_time}};
  return write_file(gang_directory(id) / (instance.host + ".json"), value.dump(2), 0600);
}

std::vector<GangRecord> Records::gangs() const {
  std::vector<GangRecord> found;
  for (const Path& job : entries_of(run_directory_)) {
    for (const Path& epoch : entries_of(job)) {
      auto gang = parse(epoch / kGangFile, read_gang);
      if (gang && gang_directory(gang->id) == epoch) {
        found.push_back(*std::move(gang));
      } else if (gang || gang.error().code != Code::kNotFound || !remove_unwritten(epoch)) {
        log_error(fmt::format("{} is not the record of a gang and is left alone: {}",
                              epoch.string(),
                              gang ? "it names another place" : gang.error().message));
      }
    }
    remove_if_empty(job);
  }
  return found;
}

std::vector<InstanceRecord> Records::instances(const control::GangId& id) const {
  std::vector<InstanceRecord> found;
  for (const Path& file : entries_of(gang_directory(id))) {
    if (file.extension() != ".json" || file.filename() == kGangFile) {
      continue;
    }
    auto instance = parse(file, read_instance);
    if (instance && instance->host == file.stem()) {
      instance->epoch = instance->epoch == kEpochOfGang ? id.epoch : instance->epoch;
      found.push_back(*std::move(instance));
    } else {
      log_error(fmt::format("{} is not the record of an instance", file.string()));
    }
  }
  return found;
}

Result<void> Records::remove_gang(const control::GangId& id) const {
  const Path directory = gang_directory(id);
  for (const Path& entry : entries_of(directory)) {
    if (entry.filename() != kGangFile) {
      YARD_TRY(remove_tree(entry));
    }
  }
  YARD_TRY(remove_file(directory / kGangFile));
  remove_if_empty(directory);
  remove_if_empty(directory.parent_path());
  return {};
}

}  // namespace trainyard::engine
