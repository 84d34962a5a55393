// SPDX-License-Identifier: Apache-2.0
#include "control/tables/job_table.h"

#include <fmt/format.h>

#include "formats/json.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

std::int64_t millis(WallTime time) {
  return time.time_since_epoch().count();
}
WallTime time_of(std::int64_t value) {
  return WallTime(Duration(value));
}

std::optional<std::int64_t> millis(const std::optional<WallTime>& time) {
  return time ? std::optional(millis(*time)) : std::nullopt;
}

// We wrote it, so text that does not parse is damage.
Result<json> parse(const std::string& text, std::string_view what) {
  json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) {
    return Error{.code = Code::kCorrupt, .message = fmt::format("{} is not JSON", what)};
  }
  return value;
}

constexpr std::string_view kJobColumns = "sequence, name, arn, created, modified, request, state";

JobRow row_of(const Statement& statement) {
  return {.sequence = statement.integer(0),
          .name = statement.text(1),
          .arn = statement.text(2),
          .created = time_of(statement.integer(3)),
          .modified = time_of(statement.integer(4)),
          .request = statement.text(5),
          .state = statement.text(6)};
}

Result<std::vector<Job>> jobs_of(Statement& statement) {
  std::vector<Job> jobs;
  while (true) {
    YARD_TRY(const bool found, statement.step());
    if (!found) {
      return jobs;
    }
    YARD_TRY(Job job, parse_job(row_of(statement)));
    jobs.push_back(std::move(job));
  }
}

std::string_view sort_column(JobQuery::SortBy sort_by) {
  switch (sort_by) {
    case JobQuery::SortBy::kName:
      return "name";
    case JobQuery::SortBy::kStatus:
      return "status";
    case JobQuery::SortBy::kCreation:
      break;
  }
  return "created";
}

// Pieces of our own text only; every value is bound.
std::string list_sql(const JobQuery& query) {
  const std::string_view column = sort_column(query.sort_by);
  const std::string_view order = query.descending ? "DESC" : "ASC";
  const std::string_view beyond = query.descending ? "<" : ">";
  std::string sql =
      "SELECT name, arn, status, secondary_status, created, modified, ended FROM job WHERE "
      "(:name_contains = '' OR instr(name, :name_contains) > 0) AND "
      "(:status = '' OR status = :status) AND "
      "(:created_after IS NULL OR created > :created_after) AND "
      "(:created_before IS NULL OR created < :created_before) AND "
      "(:modified_after IS NULL OR modified > :modified_after) AND "
      "(:modified_before IS NULL OR modified < :modified_before)";
  if (!query.after_name.empty()) {
    sql += query.sort_by == JobQuery::SortBy::kName
               ? fmt::format(" AND name {} :after_name", beyond)
               : fmt::format(
                     " AND ({0} {1} :after_key OR ({0} = :after_key AND "
                     "name {1} :after_name))",
                     column, beyond);
  }
  return fmt::format("{} ORDER BY {} {}, name {} LIMIT :limit", sql, column, order, order);
}

void bind_start(Statement& statement, const JobQuery& query) {
  if (query.after_name.empty()) {
    return;
  }
  statement.bind_text("after_name", query.after_name);
  if (query.sort_by == JobQuery::SortBy::kStatus) {
    statement.bind_text("after_key", query.after_status);
  } else if (query.sort_by == JobQuery::SortBy::kCreation) {
    statement.bind("after_key", query.after_created);
  }
}

}  // namespace

Result<void> insert_job(Connection& connection, Job& job) {
  YARD_TRY(Statement statement,
           connection.prepare(
               "INSERT INTO job (name, arn, status, secondary_status, terminal, created, modified, "
               "request, state) VALUES (:name, :arn, :status, :secondary, :terminal, :created, "
               ":modified, :request, :state)"));
  statement.bind_text("name", job.name)
      .bind_text("arn", job.arn)
      .bind_text("status", status_name(job.secondary))
      .bind_text("secondary", name_of(job.secondary))
      .bind("terminal", std::int64_t{0})
      .bind("created", millis(job.created))
      .bind("modified", millis(job.modified))
      .bind_text("request", dump_json(job.request))
      .bind_text("state", dump_json(state_to_json(job)));
  YARD_TRY(statement.run());
  job.sequence = connection.last_row();
  return {};
}

Result<void> update_job(Connection& connection, const Job& job) {
  YARD_TRY(Statement statement,
           connection.prepare(
               "UPDATE job SET status = :status, secondary_status = :secondary, terminal = "
               ":terminal, modified = CASE WHEN modified > :modified THEN modified ELSE :modified "
               "END, ended = :ended, state = :state WHERE name = "
               ":name"));
  return statement.bind_text("status", status_name(job.secondary))
      .bind_text("secondary", name_of(job.secondary))
      .bind("terminal", std::int64_t{job.stage == Stage::kDone ? 1 : 0})
      .bind("modified", millis(job.modified))
      .bind("ended", millis(job.training_end))
      .bind_text("state", dump_json(state_to_json(job)))
      .bind_text("name", job.name)
      .run();
}

Result<void> update_request(Connection& connection, const Job& job) {
  YARD_TRY(Statement statement,
           connection.prepare(
               "UPDATE job SET request = :request, modified = :modified WHERE name = :name"));
  return statement.bind_text("request", dump_json(job.request))
      .bind("modified", millis(job.modified))
      .bind_text("name", job.name)
      .run();
}

Result<Job> parse_job(const JobRow& row) {
  Job job{.sequence = row.sequence, .name = row.name, .arn = row.arn};
  job.created = row.created;
  job.modified = row.modified;
  YARD_TRY(job.request, parse(row.request, "the request of job " + job.name));
  YARD_TRY(const json state, parse(row.state, "the state of job " + job.name));
  YARD_TRY(state_from_json(state, job));
  return job;
}

Result<std::optional<JobRow>> find_row(Connection& connection, const std::string& name) {
  YARD_TRY(Statement statement,
           connection.prepare(fmt::format("SELECT {} FROM job WHERE name = :name", kJobColumns)));
  statement.bind_text("name", name);
  YARD_TRY(const bool found, statement.step());
  return found ? std::optional(row_of(statement)) : std::nullopt;
}

Result<std::optional<Job>> find_job(Connection& connection, const std::string& name) {
  YARD_TRY(const std::optional<JobRow> row, find_row(connection, name));
  if (!row) {
    return std::optional<Job>();
  }
  YARD_TRY(Job job, parse_job(*row));
  return std::optional<Job>(std::move(job));
}

Result<std::vector<Job>> unfinished_jobs(Connection& connection) {
  YARD_TRY(Statement statement,
           connection.prepare(fmt::format("SELECT {} FROM job WHERE terminal = 0 ORDER BY sequence",
                                          kJobColumns)));
  return jobs_of(statement);
}

Result<std::vector<Job>> jobs_after(Connection& connection, std::int64_t sequence,
                                    std::int64_t limit) {
  YARD_TRY(Statement statement,
           connection.prepare(fmt::format("SELECT {} FROM job WHERE sequence > :sequence ORDER BY "
                                          "sequence LIMIT :limit",
                                          kJobColumns)));
  statement.bind("sequence", sequence).bind("limit", limit);
  return jobs_of(statement);
}

Result<void> delete_job(Connection& connection, const std::string& name) {
  YARD_TRY(Statement statement, connection.prepare("DELETE FROM job WHERE name = :name"));
  return statement.bind_text("name", name).run();
}

Result<std::vector<JobSummary>> list_jobs(Connection& connection, const JobQuery& query) {
  YARD_TRY(Statement statement, connection.prepare(list_sql(query)));
  statement.bind_text("name_contains", query.name_contains)
      .bind_text("status", query.status)
      .bind("created_after", millis(query.created_after))
      .bind("created_before", millis(query.created_before))
      .bind("modified_after", millis(query.modified_after))
      .bind("modified_before", millis(query.modified_before))
      .bind("limit", query.limit);
  bind_start(statement, query);
  std::vector<JobSummary> jobs;
  while (true) {
    YARD_TRY(const bool found, statement.step());
    if (!found) {
      return jobs;
    }
    JobSummary job{.name = statement.text(0),
                   .arn = statement.text(1),
                   .status = statement.text(2),
                   .secondary_status = statement.text(3),
                   .created = time_of(statement.integer(4)),
                   .modified = time_of(statement.integer(5))};
    if (!statement.is_null(6)) {
      job.ended = time_of(statement.integer(6));
    }
    jobs.push_back(std::move(job));
  }
}

}  // namespace trainyard::control
