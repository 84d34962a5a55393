// SPDX-License-Identifier: Apache-2.0
#include "bench/load/plan.h"

#include <functional>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "formats/json.h"

namespace trainyard::load {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr std::size_t kMostConnections = 20'000;

// What each member of an object does with its value; a wrong type throws the library's exception.
using Readers = std::map<std::string, std::function<void(const json&)>, std::less<>>;

template <typename T>
std::function<void(const json&)> into(T& place) {
  return [&place](const json& value) { place = value.get<T>(); };
}

std::function<void(const json&)> into_count(auto& place) {
  return [&place](const json& value) {
    // The library would take -1 for a huge number.
    if (!value.is_number_unsigned()) {
      throw std::invalid_argument("must be a number from 0");
    }
    place = value.get<std::uint64_t>();
  };
}

std::function<void(const json&)> into_time(auto& place) {
  return [&place](const json& value) {
    if (!value.is_number() || value.get<double>() < 0) {
      throw std::invalid_argument("must be milliseconds from 0");
    }
    place = milliseconds(static_cast<std::int64_t>(value.get<double>()));
  };
}

Result<void> read_object(const json& object, const Readers& readers, const std::string& where) {
  if (!object.is_object()) {
    return Error{Code::kInvalidArgument, where + " must be an object"};
  }
  for (const auto& [name, value] : object.items()) {
    const auto reader = readers.find(name);
    if (reader == readers.end()) {
      return Error{Code::kInvalidArgument, fmt::format("{}.{} is unknown", where, name)};
    }
    try {
      reader->second(value);
    } catch (const std::exception& wrong) {
      return Error{Code::kInvalidArgument, fmt::format("{}.{}: {}", where, name, wrong.what())};
    }
  }
  return {};
}

// A part of the plan whose members are read by `readers`: throws, as into() does.
std::function<void(const json&)> part(std::string name, Readers readers) {
  return [name = std::move(name), readers = std::move(readers)](const json& value) {
    if (const auto read = read_object(value, readers, name); !read) {
      throw std::invalid_argument(read.error().message);
    }
  };
}

Readers request_readers(RequestPlan& plan) {
  return {{"method", into(plan.method)},
          {"path", into(plan.path)},
          {"query", into(plan.query)},
          {"body", into(plan.body)},
          {"first", into_count(plan.first)},
          {"modulo", into_count(plan.modulo)},
          {"headers", [&plan](const json& value) {
             for (const auto& [name, text] : value.items()) {
               plan.headers.emplace_back(name, text.get<std::string>());
             }
           }}};
}

Readers credentials_readers(http::Credentials& keys, http::SigningScope& scope) {
  return {{"access_key_id", into(keys.access_key_id)},
          {"secret_access_key", into(keys.secret_access_key)},
          {"region", into(scope.region)},
          {"service", into(scope.service)}};
}

Readers content_readers(ContentPlan& plan) {
  return {{"bytes", into_count(plan.bytes)},
          {"distinct", into_count(plan.distinct)},
          {"is_sent", into(plan.is_sent)}};
}

Readers expect_readers(ExpectPlan& plan) {
  return {
      {"status", into(plan.status)}, {"contains", into(plan.contains)}, {"same", into(plan.same)}};
}

Readers pages_readers(PagesPlan& plan) {
  return {{"item_begin", into(plan.item_begin)},
          {"item_end", into(plan.item_end)},
          {"item", into(plan.item)},
          {"token_begin", into(plan.token_begin)},
          {"token_end", into(plan.token_end)},
          {"token_prefix", into(plan.token_prefix)},
          {"token_suffix", into(plan.token_suffix)},
          {"items", into_count(plan.items)},
          {"first", into_count(plan.first)},
          {"is_timed", into(plan.is_timed)},
          {"pause_ms", into_time(plan.pause)}};
}

Result<void> check(const Plan& plan) {
  const auto refuse = [](std::string why) { return Error{Code::kInvalidArgument, std::move(why)}; };
  if (plan.port == 0) {
    return refuse("plan.port is missing");
  }
  if (plan.connections == 0 || plan.connections + plan.idle > kMostConnections) {
    return refuse(fmt::format("plan.connections must be 1 to {}", kMostConnections));
  }
  if (!plan.requests && !plan.time && !plan.pages) {
    return refuse("plan.requests, plan.time_ms or plan.pages must bound the run");
  }
  if (plan.content && (plan.content->distinct == 0 || plan.pages)) {
    return refuse("plan.content needs a distinct of 1 or more, and no plan.pages");
  }
  if (plan.pages && (plan.pages->item_begin.empty() || plan.pages->item_end.empty() ||
                     plan.pages->token_begin.empty() || plan.pages->token_end.empty())) {
    return refuse("plan.pages needs item_begin, item_end, token_begin and token_end");
  }
  if (!plan.words.empty() && plan.words.size() != plan.connections) {
    return refuse("plan.words must hold one for each connection");
  }
  return {};
}

}  // namespace

Result<Plan> parse_plan(std::string_view text) {
  YARD_TRY(const json parsed, parse_json(text));
  Plan plan;
  http::Credentials keys;
  ContentPlan content;
  PagesPlan pages;
  const Readers readers = {{"address", into(plan.address)},
                           {"port", into(plan.port)},
                           {"connections", into_count(plan.connections)},
                           {"idle", into_count(plan.idle)},
                           {"requests", into_count(plan.requests)},
                           {"time_ms", into_time(plan.time)},
                           {"every_ms", into_time(plan.every)},
                           {"answer_timeout_ms", into_time(plan.answer_timeout)},
                           {"may_break", into(plan.may_break)},
                           {"sign", part("sign", credentials_readers(keys, plan.scope))},
                           {"words", into(plan.words)},
                           {"request", part("request", request_readers(plan.request))},
                           {"content", part("content", content_readers(content))},
                           {"expect", part("expect", expect_readers(plan.expect))},
                           {"pages", part("pages", pages_readers(pages))},
                           {"sync_root", into(plan.sync_root)},
                           {"lists_acknowledged", into(plan.lists_acknowledged)}};
  YARD_TRY(read_object(parsed, readers, "plan"));
  if (parsed.contains("sign")) {
    plan.credentials = std::move(keys);
  }
  if (parsed.contains("content")) {
    plan.content = content;
  }
  if (parsed.contains("pages")) {
    plan.pages = std::move(pages);
  }
  YARD_TRY(check(plan));
  return plan;
}

std::string fill(std::string_view text, const Filling& filling) {
  std::string out;
  while (!text.empty()) {
    const std::size_t open = std::min(text.find('{'), text.size());
    out += text.substr(0, open);
    text.remove_prefix(open);
    if (text.starts_with("{n}")) {
      out += fmt::format("{:09}", filling.number);
      text.remove_prefix(3);
    } else if (text.starts_with("{s}")) {
      out += filling.word;
      text.remove_prefix(3);
    } else if (text.starts_with("{token}")) {
      out += filling.token;
      text.remove_prefix(7);
    } else if (!text.empty()) {
      out += text.front();
      text.remove_prefix(1);
    }
  }
  return out;
}

}  // namespace trainyard::load
