// SPDX-License-Identifier: Apache-2.0
#include "instance/transfer/channels.h"

#include <algorithm>
#include <set>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "instance/faults.h"
#include "instance/launch/request.h"
#include "instance/transfer/channel_plan.h"

namespace trainyard::instance {

using nlohmann::json;

namespace {

constexpr std::chrono::seconds kProgressInterval{10};

struct Channel {
  std::string name;
  s3::Uri uri;
  Shard shard;
};

Error unsupported(const std::string& channel, const std::string& what) {
  return Error{Code::kInvalidArgument,
               "channel " + channel + ": " + what +
                   " is not supported yet; use InputMode File with an S3Prefix"};
}

Result<Channel> channel_of(const json& description, const wire::Assignment& assignment) {
  Channel channel{.name = text_at(description, "ChannelName"), .uri = {}, .shard = {}};
  const std::string job_mode =
      text_at(member(assignment.request, "AlgorithmSpecification"), "TrainingInputMode", "File");
  const std::string mode = text_at(description, "InputMode", job_mode);
  const json& source = member(description, "DataSource", "S3DataSource");
  const std::string type = text_at(source, "S3DataType", "S3Prefix");
  if (!source.is_object()) {
    return unsupported(channel.name, "a source other than S3");
  }
  if (mode != "File") {
    return unsupported(channel.name, "InputMode " + mode);
  }
  if (type != "S3Prefix") {
    return unsupported(channel.name, "S3DataType " + type);
  }
  YARD_TRY(channel.uri, s3::parse_uri(text_at(source, "S3Uri")));
  if (text_at(source, "S3DataDistributionType") == "ShardedByS3Key") {
    const auto& hosts = assignment.hosts;
    const auto own = std::find_if(hosts.begin(), hosts.end(), [&](const wire::Host& host) {
      return host.name == assignment.host;
    });
    channel.shard = {.hosts = std::max(1, static_cast<int>(hosts.size())),
                     .index = own == hosts.end() ? 0 : static_cast<int>(own - hosts.begin())};
  }
  return channel;
}

Error in_channel(const Channel& channel, const Error& error) {
  return clients_fault(
      error.in("reading channel " + channel.name + " from " + s3::to_string(channel.uri)));
}

Result<std::vector<ChannelObject>> list_all(const Channel& channel, s3::ObjectStore& store,
                                            const ProgressSinks& sinks,
                                            const std::stop_token& stop) {
  std::vector<ChannelObject> objects;
  s3::ListQuery query{.prefix = channel.uri.key};
  SystemClock clock;
  SteadyTime next_message = clock.steady_now() + kProgressInterval;
  while (!stop.stop_requested()) {
    YARD_TRY(s3::ListPage page, store.list(channel.uri.bucket, query));
    for (s3::ObjectInfo& object : page.objects) {
      objects.push_back({std::move(object.key), object.size});
    }
    if (!page.truncated) {
      return objects;
    }
    query.after = page.next_after;
    if (clock.steady_now() >= next_message) {
      sinks.message("Downloading input data: channel " + channel.name + ", " +
                    std::to_string(objects.size()) + " objects listed so far");
      next_message = clock.steady_now() + kProgressInterval;
    }
  }
  return Error{Code::kCancelled, "stopped while listing"};
}

Result<void> make_folders(const ChannelPlan& plan, const Path& directory) {
  std::set<Path> folders = {directory};
  for (const std::string& folder : plan.directories) {
    folders.insert(directory / folder);
  }
  for (const PlannedFile& file : plan.files) {
    folders.insert((directory / file.path).parent_path());
  }
  for (const Path& folder : folders) {
    YARD_TRY(make_directories(folder));
  }
  return {};
}

// In the form of S3's manifest files: the common prefix, then one key an object.
std::string manifest_of(const Channel& channel, const ChannelPlan& plan) {
  json list = json::array({{{"prefix", "s3://" + channel.uri.bucket + "/"}}});
  for (const PlannedFile& file : plan.files) {
    list.push_back(file.key);
  }
  return list.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

// Gives a remark for the StatusMessage, or nothing.
Result<std::string> fetch(const Channel& channel, s3::ObjectStore& store, const Path& ml,
                          const ProgressSinks& sinks, const std::stop_token& stop) {
  const Path directory = ml / "input/data" / channel.name;
  const Path staging = ml.string() + ".incoming";
  std::error_code failed;
  if (std::filesystem::is_regular_file(channel_manifest(directory), failed)) {
    return std::string();
  }
  YARD_TRY(const std::vector<ChannelObject> objects, list_all(channel, store, sinks, stop));
  if (objects.empty()) {
    return Error{Code::kNotFound, "no object has this prefix"};
  }
  YARD_TRY(const ChannelPlan plan,
           plan_channel(channel.name, channel.uri.key, objects, channel.shard));
  for (const std::string& warning : plan.warnings) {
    sinks.note(warning);
  }
  YARD_TRY(make_folders(plan, directory));
  std::vector<Download> files;
  files.reserve(plan.files.size());
  for (const PlannedFile& file : plan.files) {
    files.push_back({.key = file.key, .path = file.path, .size = file.size});
  }
  YARD_TRY(download_all({.what = "Downloading input data: channel " + channel.name,
                         .bucket = channel.uri.bucket,
                         .directory = directory,
                         .staging = staging},
                        files, store, sinks, stop));
  YARD_TRY(write_file(channel_manifest(directory), manifest_of(channel, plan)));
  return left_out_remark(channel.name, plan.left_out);
}

}  // namespace

Path channel_manifest(const Path& channel) {
  return channel.parent_path() / (channel.filename().string() + "-manifest");
}

Result<std::vector<std::string>> fetch_channels(const wire::Assignment& assignment,
                                                s3::ObjectStore& store, const Path& ml,
                                                const ProgressSinks& sinks,
                                                const std::stop_token& stop) {
  std::vector<std::string> remarks;
  for (const json& description : member(assignment.request, "InputDataConfig")) {
    YARD_TRY(const Channel channel, channel_of(description, assignment));
    const Result<std::string> remark = fetch(channel, store, ml, sinks, stop);
    if (!remark) {
      return stop.stop_requested() ? Error{Code::kCancelled, "stopped while downloading"}
                                   : in_channel(channel, remark.error());
    }
    if (!remark->empty()) {
      remarks.push_back(*remark);
    }
  }
  return remarks;
}

}  // namespace trainyard::instance
