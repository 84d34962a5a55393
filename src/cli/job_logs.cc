// SPDX-License-Identifier: Apache-2.0
#include "cli/job_logs.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "cli/members.h"

namespace trainyard::cli {
namespace {

using Json = nlohmann::json;

constexpr const char* kGroup = "/aws/sagemaker/TrainingJobs";

Result<std::vector<std::string>> stream_names(const ApiClient& api, const std::string& prefix) {
  std::vector<std::string> names;
  std::string token;
  do {
    Json input = {{"logGroupName", kGroup}, {"logStreamNamePrefix", prefix}};
    if (!token.empty()) {
      input["nextToken"] = token;
    }
    const Result<Json> page = api.call("logs", "DescribeLogStreams", input);
    if (!page && page.error().subject == "ResourceNotFoundException") {
      return names;  // the group appears with the first job's first line
    }
    if (!page) {
      return page.error();
    }
    for (const Json& stream : list_of(*page, "logStreams")) {
      names.push_back(text_of(stream, "logStreamName"));
    }
    const std::string next = text_of(*page, "nextToken");
    token = next == token ? std::string() : next;
  } while (!token.empty());
  return names;
}

}  // namespace

std::string host_of(std::string_view stream) {
  const std::string_view name = stream.substr(stream.rfind('/') + 1);
  return std::string(name.substr(0, name.rfind('-')));
}

Result<std::vector<std::string>> latest_lines(const ApiClient& api, const std::string& job,
                                              const std::string& host, int count) {
  YARD_TRY(const std::vector<std::string> names, stream_names(api, job + "/" + host + "-"));
  std::vector<std::string> lines;
  if (names.empty()) {
    return lines;
  }
  // The names end in the time of the start, ten digits of it.
  const std::string& newest = *std::max_element(names.begin(), names.end());
  YARD_TRY(const Json page,
           api.call("logs", "GetLogEvents",
                    {{"logGroupName", kGroup}, {"logStreamName", newest}, {"limit", count}}));
  for (const Json& event : list_of(page, "events")) {
    lines.push_back(text_of(event, "message"));
  }
  return lines;
}

Result<void> JobLogs::find_streams() {
  YARD_TRY(const std::vector<std::string> names, stream_names(api_, job_ + "/"));
  for (const std::string& name : names) {
    streams_.try_emplace(name);
  }
  return {};
}

Result<void> JobLogs::fill(const std::string& name, Stream& stream) {
  Json input = {{"logGroupName", kGroup}, {"logStreamName", name}, {"startFromHead", true}};
  if (!stream.next_token.empty()) {
    input["nextToken"] = stream.next_token;
  }
  YARD_TRY(const Json page, api_.call("logs", "GetLogEvents", input));
  for (const Json& event : list_of(page, "events")) {
    stream.page.push_back({.time = number_of(event, "timestamp").value_or(0),
                           .stream = name,
                           .text = text_of(event, "message")});
  }
  // The end: no events, and the same token again.
  const std::string next = text_of(page, "nextForwardToken");
  stream.at_end = stream.page.empty();
  if (!next.empty()) {
    stream.next_token = next;
  }
  return {};
}

Result<void> JobLogs::drain(const std::function<Result<void>(const LogEvent&)>& sink) {
  YARD_TRY(find_streams());
  for (auto& [name, stream] : streams_) {
    stream.at_end = false;
  }
  for (;;) {
    Stream* first = nullptr;
    for (auto& [name, stream] : streams_) {
      if (stream.page.empty() && !stream.at_end) {
        YARD_TRY(fill(name, stream));
      }
      if (!stream.page.empty() &&
          (first == nullptr || stream.page.front().time < first->page.front().time)) {
        first = &stream;
      }
    }
    if (first == nullptr) {
      return {};
    }
    const LogEvent event = std::move(first->page.front());
    first->page.pop_front();
    YARD_TRY(sink(event));
  }
}

}  // namespace trainyard::cli
