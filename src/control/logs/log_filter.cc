// SPDX-License-Identifier: Apache-2.0
#include "control/logs/log_filter.h"

#include <algorithm>
#include <cstring>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/paging.h"
#include "base/hash.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

// Streams that one merge reads at once: their positions must fit into a token. A query that names
// more goes through them in groups by name.
constexpr std::size_t kMergedStreams = 50;
constexpr std::size_t kRefillBytes = std::size_t{64} << 10;
constexpr std::size_t kRefillEvents = 1'000;
constexpr std::size_t kExaminedBytes = std::size_t{32} << 20;  // a call stops after these

struct FilterRequest {
  std::string group;
  std::vector<std::string> names;  // empty: by prefix
  std::string prefix;
  std::optional<WallTime> start = {};
  std::optional<WallTime> end = {};  // exclusive
  FilterPattern pattern;
  std::size_t limit = kMaxPageEvents;
  std::string after;                             // streams up to this name are done
  std::map<std::string, std::uint64_t> reached;  // where the others go on
};

// One stream's events that are still to be merged.
struct Source {
  std::string name;
  std::uint64_t position = 0;  // of the next read
  std::vector<StoredEvent> events = {};
  std::size_t next = 0;
  bool is_done = false;

  bool is_empty() const { return next == events.size(); }
  std::uint64_t reached() const { return is_empty() ? position : events[next].position; }
};

std::string scope_of(const FilterRequest& request) {
  return "FilterLogEvents " + request.group + " " + request.prefix;
}

Result<void> read_token(const std::string& token, FilterRequest& request) {
  YARD_TRY(const json state, api::decode_token(scope_of(request), token));
  const Error invalid = bad_parameter("The specified nextToken is invalid.");
  if (!state.is_object() || !state.contains("after") || !state["after"].is_string() ||
      !state.contains("at") || !state["at"].is_object()) {
    return invalid;
  }
  request.after = state["after"].get<std::string>();
  for (const auto& [name, position] : state["at"].items()) {
    if (!position.is_number_unsigned()) {
      return invalid;
    }
    request.reached[name] = position.get<std::uint64_t>();
  }
  return {};
}

Result<FilterRequest> read_request(const LogInput& input) {
  FilterRequest out;
  YARD_TRY(out.group, input.group());
  YARD_TRY(out.names, input.texts("logStreamNames"));
  YARD_TRY(const std::optional<std::string> prefix, input.text("logStreamNamePrefix"));
  if (prefix && !out.names.empty()) {
    return bad_parameter("only one of logStreamNames and logStreamNamePrefix may be given");
  }
  out.prefix = prefix.value_or("");
  YARD_TRY(out.start, input.time("startTime"));
  YARD_TRY(out.end, input.time("endTime"));
  if (out.end) {
    // Here, and unlike in GetLogEvents, the end belongs to the range.
    *out.end += Duration{1};
  }
  YARD_TRY(out.limit, input.limit(kMaxPageEvents));
  YARD_TRY(const std::optional<std::string> pattern, input.text("filterPattern"));
  YARD_TRY(out.pattern, FilterPattern::parse(pattern.value_or("")));
  YARD_TRY(const std::optional<std::string> token, input.text("nextToken"));
  if (token) {
    YARD_TRY(read_token(*token, out));
  }
  return out;
}

// The streams asked for, in byte order. A stream that is named must exist.
Result<std::vector<std::string>> names_of(LogStore& logs, const FilterRequest& request) {
  YARD_TRY(std::vector<std::string> names, logs.streams(request.group, request.prefix));
  if (request.names.empty()) {
    return names;
  }
  for (const std::string& name : request.names) {
    if (!std::binary_search(names.begin(), names.end(), name)) {
      return Error{Code::kNotFound, "The specified log stream does not exist: " + name,
                   "log_stream"};
    }
  }
  names = request.names;
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

class Merge {
 public:
  Merge(LogStore& logs, const FilterRequest& request) : logs_(logs), request_(request) {}

  Result<json> run() {
    YARD_TRY(const std::vector<std::string> names, names_of(logs_, request_));
    YARD_TRY(choose(names));
    bool cut = false;
    while (!cut) {
      YARD_TRY(Source* const first, earliest());
      if (first == nullptr) {
        break;
      }
      cut = !emit(*first);
    }
    json answer = {{"events", std::move(events_)}, {"searchedLogStreams", json::array()}};
    if (cut || more_streams_) {
      answer["nextToken"] = token(cut);
    }
    return answer;
  }

 private:
  // The streams of this call: those that the token names, and the next ones with events in range.
  Result<void> choose(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      const auto reached = request_.reached.find(name);
      const bool is_known = reached != request_.reached.end();
      if (!is_known && name <= request_.after) {
        continue;
      }
      if (!is_known) {
        YARD_TRY(const LogSummary summary, logs_.summary(request_.group, name));
        const bool overlaps = summary.first_at &&
                              (!request_.start || summary.latest >= *request_.start) &&
                              (!request_.end || summary.earliest < *request_.end);
        if (!overlaps) {
          continue;
        }
        if (sources_.size() >= kMergedStreams) {
          more_streams_ = true;
          break;  // none behind it is the token's: those are the first of the names
        }
      }
      sources_.push_back({.name = name, .position = is_known ? reached->second : 0});
    }
    return {};
  }

  Result<void> refill(Source& source) {
    while (source.is_empty() && !source.is_done) {
      YARD_TRY(LogPage page, logs_.read(request_.group, source.name,
                                        {.from = source.position,
                                         .start = request_.start,
                                         .end = request_.end,
                                         .max_events = kRefillEvents,
                                         .max_bytes = kRefillBytes}));
      source.events = std::move(page.events);
      source.next = 0;
      source.position = page.end;
      source.is_done = page.complete;
    }
    return {};
  }

  // The source whose next event is the oldest; nullptr when nothing is left.
  Result<Source*> earliest() {
    Source* first = nullptr;
    for (Source& source : sources_) {
      YARD_TRY(refill(source));
      if (!source.is_empty() &&
          (first == nullptr || source.events[source.next].at < first->events[first->next].at)) {
        first = &source;
      }
    }
    return first;
  }

  // False when the page is full: the event stays where it is.
  bool emit(Source& source) {
    const StoredEvent& event = source.events[source.next];
    if (examined_ >= kExaminedBytes) {
      return false;
    }
    if (request_.pattern.matches(event.text)) {
      const bool fits = events_.size() < request_.limit &&
                        (events_.empty() || bytes_ + event.text.size() <= kMaxPageBytes);
      if (!fits) {
        return false;
      }
      bytes_ += event.text.size();
      events_.push_back({{"logStreamName", source.name},
                         {"timestamp", to_millis(event.at)},
                         {"message", event.text},
                         {"ingestionTime", to_millis(event.ingested)},
                         {"eventId", event_id(source.name, event)}});
    }
    examined_ += event.text.size() + kRecordHeader;
    source.next += 1;
    return true;
  }

  // Digits only, unique, and the same whenever the event is read: followers drop what they have
  // seen.
  static std::string event_id(const std::string& stream, const StoredEvent& event) {
    const std::string digest = hash_of(HashKind::kSha256, stream);
    std::uint64_t tag = 0;
    std::memcpy(&tag, digest.data(), sizeof(tag));
    return fmt::format("{:015}{:020}{:020}", std::max<std::int64_t>(0, to_millis(event.at)), tag,
                       event.position);
  }

  std::string token(bool cut) const {
    json at = json::object();
    std::string after = request_.after;
    for (const Source& source : sources_) {
      if (cut) {
        at[source.name] = source.reached();
      }
      after = std::max(after, source.name);
    }
    return api::encode_token(scope_of(request_), {{"after", after}, {"at", std::move(at)}});
  }

  LogStore& logs_;
  const FilterRequest& request_;
  std::vector<Source> sources_;
  bool more_streams_ = false;
  json events_ = json::array();
  std::size_t bytes_ = 0;
  std::size_t examined_ = 0;
};

}  // namespace

Result<FilterPattern> FilterPattern::parse(std::string_view text) {
  FilterPattern out;
  std::size_t at = text.find_first_not_of(' ');
  if (at != std::string_view::npos && std::string_view("{[%").find(text[at]) != text.npos) {
    return bad_parameter("Invalid filter pattern: only terms and \"phrases\" are supported");
  }
  while (at < text.size()) {
    std::vector<std::string>* kind = &out.all_;
    if ((text[at] == '-' || text[at] == '?') && at + 1 < text.size() && text[at + 1] != ' ') {
      kind = text[at] == '-' ? &out.none_ : &out.any_;
      at += 1;
    }
    std::string term;
    if (text[at] == '"') {
      for (at += 1; at < text.size() && text[at] != '"'; ++at) {
        at += text[at] == '\\' && at + 1 < text.size() ? 1 : 0;
        term += text[at];
      }
      if (at >= text.size()) {
        return bad_parameter("Invalid filter pattern: a quote is not closed");
      }
      at += 1;
    } else {
      const std::size_t end = std::min(text.find(' ', at), text.size());
      term = text.substr(at, end - at);
      at = end;
    }
    if (!term.empty()) {
      kind->push_back(std::move(term));
    }
    at = text.find_first_not_of(' ', at);
  }
  return out;
}

bool FilterPattern::matches(std::string_view message) const {
  const auto occurs = [&](const std::string& term) { return message.find(term) != message.npos; };
  return std::all_of(all_.begin(), all_.end(), occurs) &&
         (any_.empty() || std::any_of(any_.begin(), any_.end(), occurs)) &&
         std::none_of(none_.begin(), none_.end(), occurs);
}

Result<json> filter_log_events(LogStore& logs, const LogInput& input) {
  YARD_TRY(const FilterRequest request, read_request(input));
  return Merge(logs, request).run();
}

}  // namespace trainyard::control
