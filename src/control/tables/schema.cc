// SPDX-License-Identifier: Apache-2.0
#include "control/tables/schema.h"

#include <array>

namespace trainyard::control {
namespace {

// Times are milliseconds since 1970. `state` and `facts` are JSON that only job_json.cc reads;
// what a query filters or sorts by has a column of its own. Plain types and no SQLite functions,
// so that the same statements run on PostgreSQL.
constexpr std::string_view kFirst = R"sql(
CREATE TABLE job (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  arn TEXT NOT NULL UNIQUE,
  status TEXT NOT NULL,
  secondary_status TEXT NOT NULL,
  terminal INTEGER NOT NULL,
  created INTEGER NOT NULL,
  modified INTEGER NOT NULL,
  ended INTEGER,
  request TEXT NOT NULL,
  state TEXT NOT NULL
);
CREATE INDEX job_by_creation ON job (created, name);
CREATE INDEX job_by_status ON job (status, name);
CREATE INDEX job_unfinished ON job (terminal, sequence);
CREATE TABLE instance (
  job TEXT NOT NULL REFERENCES job (name) ON DELETE CASCADE,
  epoch INTEGER NOT NULL,
  host TEXT NOT NULL,
  token_hash TEXT NOT NULL UNIQUE,
  facts TEXT NOT NULL,
  acknowledged INTEGER NOT NULL,
  commands TEXT NOT NULL,
  PRIMARY KEY (job, epoch, host)
);
CREATE TABLE tag (
  arn TEXT NOT NULL,
  tag_key TEXT NOT NULL,
  tag_value TEXT NOT NULL,
  PRIMARY KEY (arn, tag_key)
);
CREATE TABLE access_key (
  access_key_id TEXT PRIMARY KEY,
  secret_access_key TEXT NOT NULL,
  session_token TEXT NOT NULL,
  expires INTEGER,
  arn TEXT NOT NULL,
  user_id TEXT NOT NULL,
  job TEXT NOT NULL
);
CREATE INDEX access_key_by_job ON access_key (job)
)sql";

// The keys of an older attempt are worth nothing when the next one begins.
constexpr std::string_view kSecond = R"sql(
ALTER TABLE access_key ADD COLUMN epoch INTEGER NOT NULL DEFAULT 1
)sql";

// Points of metrics: see metric_table.h. A last value may be not a number, and a sum may become so:
// that is stored as NULL.
constexpr std::string_view kThird = R"sql(
CREATE TABLE metric_series (
  id INTEGER PRIMARY KEY,
  job TEXT NOT NULL REFERENCES job (name) ON DELETE CASCADE,
  metric TEXT NOT NULL,
  first_at INTEGER NOT NULL,
  last_at INTEGER NOT NULL,
  last_value REAL,
  UNIQUE (job, metric)
);
CREATE TABLE metric_points (
  id INTEGER PRIMARY KEY,
  series INTEGER NOT NULL REFERENCES metric_series (id) ON DELETE CASCADE,
  first_at INTEGER NOT NULL,
  last_at INTEGER NOT NULL,
  points BLOB NOT NULL
);
CREATE INDEX metric_points_by_time ON metric_points (series, first_at);
CREATE TABLE metric_minute (
  series INTEGER NOT NULL REFERENCES metric_series (id) ON DELETE CASCADE,
  start INTEGER NOT NULL,
  count INTEGER NOT NULL,
  sum REAL,
  least REAL NOT NULL,
  most REAL NOT NULL,
  PRIMARY KEY (series, start)
)
)sql";

constexpr std::array kMigrations{kFirst, kSecond, kThird};

}  // namespace

std::span<const std::string_view> schema_migrations() {
  return kMigrations;
}

}  // namespace trainyard::control
