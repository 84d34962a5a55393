// SPDX-License-Identifier: Apache-2.0
#include "control/logs/log_operations.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/paging.h"
#include "base/text.h"
#include "control/logs/log_filter.h"
#include "control/logs/log_input.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxListed = 50;

std::string group_arn(const LogPlace& place, std::string_view group) {
  return fmt::format("arn:aws:logs:{}:{}:log-group:{}", place.region, place.account, group);
}

// The name that the token says to go on after; empty without a token.
Result<std::string> name_in_token(const LogInput& input, std::string_view scope) {
  YARD_TRY(const std::optional<std::string> token, input.text("nextToken"));
  if (!token) {
    return std::string();
  }
  YARD_TRY(const json state, api::decode_token(scope, *token));
  if (!state.is_string()) {
    return bad_parameter("The specified nextToken is invalid.");
  }
  return state.get<std::string>();
}

Result<json> describe_log_groups(LogStore& logs, const LogInput& input, const LogPlace& place) {
  YARD_TRY(const std::optional<std::string> prefix, input.text("logGroupNamePrefix"));
  YARD_TRY(const std::optional<std::string> pattern, input.text("logGroupNamePattern"));
  if (prefix && pattern) {
    return bad_parameter("only one of logGroupNamePrefix and logGroupNamePattern may be given");
  }
  YARD_TRY(const std::size_t limit, input.limit(kMaxListed));
  YARD_TRY(const std::string after, name_in_token(input, "DescribeLogGroups"));
  json listed = json::array();
  json answer = json::object();
  std::string last;
  for (const std::string& group : logs.groups(prefix.value_or(""))) {
    const bool fits = !pattern || lower(group).find(lower(*pattern)) != std::string::npos;
    if (group <= after || !fits) {
      continue;
    }
    if (listed.size() == limit) {
      answer["nextToken"] = api::encode_token("DescribeLogGroups", last);
      break;
    }
    YARD_TRY(const WallTime created, logs.group_created(group));
    listed.push_back({{"logGroupName", group},
                      {"creationTime", to_millis(created)},
                      {"metricFilterCount", 0},
                      {"logGroupClass", "STANDARD"},
                      {"arn", group_arn(place, group) + ":*"},
                      {"logGroupArn", group_arn(place, group)}});
    last = group;
  }
  answer["logGroups"] = std::move(listed);
  return answer;
}

json stream_json(const std::string& name, const LogSummary& summary, const std::string& arn) {
  // AWS has stopped to count the bytes of a stream: it says 0 for every one.
  json out = {{"logStreamName", name},
              {"creationTime", to_millis(summary.created)},
              {"arn", arn + ":log-stream:" + name},
              {"storedBytes", 0}};
  if (summary.first_at && summary.last_at && summary.last_ingested) {
    out["firstEventTimestamp"] = to_millis(*summary.first_at);
    out["lastEventTimestamp"] = to_millis(*summary.last_at);
    out["lastIngestionTime"] = to_millis(*summary.last_ingested);
  }
  return out;
}

// A stream's place in a listing: by last event and then name, or by name alone.
struct StreamKey {
  std::int64_t last_event = 0;
  std::string name;

  auto operator<=>(const StreamKey&) const = default;
};

struct StreamListing {
  std::string group;
  std::string prefix;
  bool by_time = false;
  bool descending = false;
  std::size_t limit = kMaxListed;
  std::optional<StreamKey> after = {};

  std::string scope() const {
    return fmt::format("DescribeLogStreams {} {} {} {}", group, prefix, by_time, descending);
  }
};

Result<StreamListing> read_listing(const LogInput& input) {
  StreamListing out;
  YARD_TRY(out.group, input.group());
  YARD_TRY(const std::optional<std::string> prefix, input.text("logStreamNamePrefix"));
  YARD_TRY(const std::optional<std::string> order, input.text("orderBy"));
  YARD_TRY(out.descending, input.flag("descending"));
  YARD_TRY(out.limit, input.limit(kMaxListed));
  out.prefix = prefix.value_or("");
  out.by_time = order == "LastEventTime";
  if (order && !out.by_time && *order != "LogStreamName") {
    return bad_parameter("orderBy must be LogStreamName or LastEventTime");
  }
  if (out.by_time && prefix) {
    return bad_parameter("Cannot order by LastEventTime with a logStreamNamePrefix.");
  }
  YARD_TRY(const std::optional<std::string> token, input.text("nextToken"));
  if (token) {
    YARD_TRY(const json state, api::decode_token(out.scope(), *token));
    if (!state.is_array() || state.size() != 2 || !state[0].is_number_integer() ||
        !state[1].is_string()) {
      return bad_parameter("The specified nextToken is invalid.");
    }
    out.after = StreamKey{state[0].get<std::int64_t>(), state[1].get<std::string>()};
  }
  return out;
}

Result<std::vector<StreamKey>> keys_of(LogStore& logs, const StreamListing& listing) {
  YARD_TRY(const std::vector<std::string> names, logs.streams(listing.group, listing.prefix));
  std::vector<StreamKey> keys;
  keys.reserve(names.size());
  for (const std::string& name : names) {
    std::int64_t last_event = 0;
    if (listing.by_time) {
      YARD_TRY(const LogSummary summary, logs.summary(listing.group, name));
      last_event = summary.last_at ? to_millis(*summary.last_at) : 0;
    }
    keys.push_back({last_event, name});
  }
  std::sort(keys.begin(), keys.end());
  if (listing.descending) {
    std::reverse(keys.begin(), keys.end());
  }
  return keys;
}

Result<json> describe_log_streams(LogStore& logs, const LogInput& input, const LogPlace& place) {
  YARD_TRY(const StreamListing listing, read_listing(input));
  YARD_TRY(const std::vector<StreamKey> keys, keys_of(logs, listing));
  json listed = json::array();
  json answer = json::object();
  const StreamKey* last = nullptr;
  for (const StreamKey& key : keys) {
    if (listing.after && (listing.descending ? key >= *listing.after : key <= *listing.after)) {
      continue;
    }
    if (listed.size() == listing.limit) {
      answer["nextToken"] =
          api::encode_token(listing.scope(), json::array({last->last_event, last->name}));
      break;
    }
    YARD_TRY(const LogSummary summary, logs.summary(listing.group, key.name));
    listed.push_back(stream_json(key.name, summary, group_arn(place, listing.group)));
    last = &key;
  }
  answer["logStreams"] = std::move(listed);
  return answer;
}

std::string position_token(char way, std::uint64_t position) {
  return fmt::format("{}/{:020}", way, position);
}

// "f/<position>" reads on from there, "b/<position>" reads what lies before.
Result<void> apply_token(const std::string& token, LogQuery& query) {
  const bool known = token.starts_with("f/") || token.starts_with("b/");
  const Result<std::int64_t> position = parse_int(std::string_view(token).substr(known ? 2 : 0));
  if (!known || !position || *position < 0) {
    return bad_parameter("The specified nextToken is invalid.");
  }
  query.backward = token.front() == 'b';
  query.from = static_cast<std::uint64_t>(*position);
  return {};
}

Result<json> get_log_events(LogStore& logs, const LogInput& input) {
  YARD_TRY(const std::string group, input.group());
  YARD_TRY(const std::optional<std::string> stream, input.text("logStreamName"));
  if (!stream) {
    return bad_parameter("logStreamName is missing");
  }
  LogQuery query{.max_bytes = kMaxPageBytes};
  YARD_TRY(query.start, input.time("startTime"));
  YARD_TRY(query.end, input.time("endTime"));
  YARD_TRY(query.max_events, input.limit(kMaxPageEvents));
  YARD_TRY(const bool from_head, input.flag("startFromHead"));
  YARD_TRY(const std::optional<std::string> token, input.text("nextToken"));
  query.backward = !from_head;
  query.from = from_head ? 0 : std::numeric_limits<std::uint64_t>::max();
  if (token) {
    YARD_TRY(apply_token(*token, query));
  }
  YARD_TRY(const LogPage page, logs.read(group, *stream, query));
  json events = json::array();
  for (const StoredEvent& event : page.events) {
    events.push_back({{"timestamp", to_millis(event.at)},
                      {"message", event.text},
                      {"ingestionTime", to_millis(event.ingested)}});
  }
  return json{{"events", std::move(events)},
              {"nextForwardToken", position_token('f', page.end)},
              {"nextBackwardToken", position_token('b', page.begin)}};
}

}  // namespace

Result<json> call_logs(LogStore& logs, std::string_view operation, const json& input,
                       const LogPlace& place) {
  if (!input.is_object()) {
    return Error{Code::kInvalidArgument, "the request must be a JSON object", "serialization"};
  }
  const LogInput in(input);
  if (operation == "DescribeLogGroups") {
    return describe_log_groups(logs, in, place);
  }
  if (operation == "DescribeLogStreams") {
    return describe_log_streams(logs, in, place);
  }
  if (operation == "GetLogEvents") {
    return get_log_events(logs, in);
  }
  if (operation == "FilterLogEvents") {
    return filter_log_events(logs, in);
  }
  return Error{Code::kUnimplemented, fmt::format("logs does not serve {}", operation), "operation"};
}

}  // namespace trainyard::control
