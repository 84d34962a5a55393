// SPDX-License-Identifier: Apache-2.0
#include "control/search/search.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "api/paging.h"
#include "control/operations/describe_job.h"
#include "control/operations/requests.h"
#include "control/search/expression.h"
#include "control/search/property.h"
#include "control/tables/job_table.h"
#include "control/tables/metric_table.h"
#include "formats/json.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

constexpr std::int64_t kSlice = 100;
constexpr std::int64_t kDefaultPage = 10;

struct Query {
  SearchExpression expression;
  Property sort_by;
  bool descending = true;
  std::int64_t page = kDefaultPage;
};

// A match: where it stands in the order, and whose it is.
struct Hit {
  json key;  // a number or text; null when the job has no such property
  std::string name;
};

Result<Query> query_of(const json& input) {
  Query query;
  YARD_TRY(query.expression, search_expression(input));
  const std::string sort_by = text_in(input, {"SortBy"});
  YARD_TRY(query.sort_by, find_property(sort_by.empty() ? "LastModifiedTime" : sort_by));
  if (query.sort_by.kind == Property::Kind::kWhole) {
    return Error{.code = Code::kInvalidArgument,
                 .message = "'" + sort_by + "' at 'sortBy' has no order"};
  }
  query.descending = text_in(input, {"SortOrder"}) != "Ascending";
  query.page = number_in(input, {"MaxResults"}, kDefaultPage);
  return query;
}

// The job as Search shows it.
Result<json> document_of(Connection& connection, const Job& job) {
  YARD_TRY(const std::vector<Series> metrics, series_of(connection, job.name));
  YARD_TRY(const std::vector<Tag> tags, tags_of(connection, job.arn));
  json document = describe_job(job, metrics);
  document["Tags"] = tags_json(tags);
  return document;
}

// Jobs without the property come last, in either order; names decide among equals.
bool stands_before(const Hit& left, const Hit& right, bool descending) {
  if (left.key.is_null() != right.key.is_null()) {
    return right.key.is_null();
  }
  if (left.key != right.key) {
    return descending ? right.key < left.key : left.key < right.key;
  }
  return left.name < right.name;
}

Result<std::vector<Hit>> find_all(Database& database, const Query& query) {
  std::vector<Hit> hits;
  std::int64_t after = 0;
  const auto look = [&](Connection& connection) -> Result<bool> {
    YARD_TRY(const std::vector<Job> jobs, jobs_after(connection, after, kSlice));
    for (const Job& job : jobs) {
      after = job.sequence;
      YARD_TRY(const json document, document_of(connection, job));
      if (matches(query.expression, document)) {
        const auto keys = values_of(document, query.sort_by);
        hits.push_back({.key = keys.empty() ? json() : *keys.front(), .name = job.name});
      }
    }
    return !jobs.empty();
  };
  while (true) {
    YARD_TRY(const bool more, database.read(look));
    if (!more) {
      break;
    }
  }
  std::sort(hits.begin(), hits.end(), [&](const Hit& left, const Hit& right) {
    return stands_before(left, right, query.descending);
  });
  return hits;
}

std::string scope_of(json input) {
  input.erase("NextToken");
  input.erase("MaxResults");
  return "Search " + dump_json(input);
}

Result<std::size_t> start_of_page(const json& input, const Query& query,
                                  const std::vector<Hit>& hits) {
  const std::string token = text_in(input, {"NextToken"});
  if (token.empty()) {
    return std::size_t{0};
  }
  YARD_TRY(const json state, api::decode_token(scope_of(input), token));
  const Hit last{.key = state.is_object() ? state.value("key", json()) : json(),
                 .name = text_in(state, {"name"})};
  const auto next =
      std::upper_bound(hits.begin(), hits.end(), last, [&](const Hit& left, const Hit& right) {
        return stands_before(left, right, query.descending);
      });
  return static_cast<std::size_t>(next - hits.begin());
}

}  // namespace

Result<json> search_jobs(Database& database, const json& input) {
  YARD_TRY(const Query query, query_of(input));
  YARD_TRY(const std::vector<Hit> hits, find_all(database, query));
  YARD_TRY(std::size_t at, start_of_page(input, query, hits));
  const std::size_t end = std::min(hits.size(), at + static_cast<std::size_t>(query.page));
  json out = {{"Results", json::array()},
              {"TotalHits", {{"Value", hits.size()}, {"Relation", "EqualTo"}}}};
  if (end < hits.size()) {
    out["NextToken"] = api::encode_token(
        scope_of(input), {{"key", hits[end - 1].key}, {"name", hits[end - 1].name}});
  }
  const auto show = [&](Connection& connection) -> Result<void> {
    for (; at < end; ++at) {
      YARD_TRY(const auto job, find_job(connection, hits[at].name));
      if (job) {  // not deleted meanwhile
        YARD_TRY(json document, document_of(connection, *job));
        out["Results"].push_back({{"TrainingJob", std::move(document)}});
      }
    }
    return {};
  };
  YARD_TRY(database.read(show));
  return out;
}

}  // namespace trainyard::control
