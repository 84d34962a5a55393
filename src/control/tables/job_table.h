// SPDX-License-Identifier: Apache-2.0
// Every SQL statement about jobs, their instances and tags. Functions take the connection of a
// running transaction (Database::write, Database::read) and decide nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "control/job/job.h"
#include "control/tables/database.h"

namespace trainyard::control {

// Sets job.sequence. kAlreadyExists when the name is taken.
Result<void> insert_job(Connection& connection, Job& job);
Result<void> update_job(Connection& connection, const Job& job);
Result<void> update_request(Connection& connection, const Job& job);  // all that clients change
// A job as it is stored.
struct JobRow {
  std::int64_t sequence = 0;
  std::string name;
  std::string arn;
  WallTime created{};
  WallTime modified{};
  std::string request;  // JSON, as is the state
  std::string state;

  bool operator==(const JobRow&) const = default;
};
Result<std::optional<JobRow>> find_row(Connection& connection, const std::string& name);
Result<Job> parse_job(const JobRow& row);  // kCorrupt
Result<std::optional<Job>> find_job(Connection& connection, const std::string& name);
Result<std::vector<Job>> unfinished_jobs(Connection& connection);  // in order of creation
// All of them in slices, in order of creation.
Result<std::vector<Job>> jobs_after(Connection& connection, std::int64_t sequence,
                                    std::int64_t limit);
Result<void> delete_job(Connection& connection, const std::string& name);

// What ListTrainingJobs shows and filters by.
struct JobSummary {
  std::string name;
  std::string arn;
  std::string status;
  std::string secondary_status;
  WallTime created{};
  WallTime modified{};
  std::optional<WallTime> ended = {};
};

struct JobQuery {
  enum class SortBy { kCreation, kName, kStatus };
  SortBy sort_by = SortBy::kCreation;
  bool descending = false;
  std::int64_t limit = 100;
  std::string name_contains = {};              // empty: any
  std::string status = {};                     // empty: any
  std::optional<WallTime> created_after = {};  // times are exclusive bounds
  std::optional<WallTime> created_before = {};
  std::optional<WallTime> modified_after = {};
  std::optional<WallTime> modified_before = {};
  // Where the page begins: after the job with this sort key (ignored for kName) and name.
  std::string after_name = {};
  std::string after_status = {};
  std::int64_t after_created = 0;
};
Result<std::vector<JobSummary>> list_jobs(Connection& connection, const JobQuery& query);

struct InstanceKey {
  std::string job;
  int epoch = 1;
  std::string host;

  auto operator<=>(const InstanceKey&) const = default;
};

struct InstanceRow {
  InstanceKey key;
  std::string token_hash;
  InstanceFacts facts;
  std::int64_t acknowledged = 0;
  std::vector<wire::Command> commands = {};
};

Result<void> insert_instance(Connection& connection, const InstanceRow& row);
Result<std::vector<InstanceRow>> instances_of(Connection& connection, const std::string& job,
                                              int epoch);
// False: the attempt is over, nothing was saved.
Result<bool> save_facts(Connection& connection, const InstanceKey& key, const InstanceFacts& facts,
                        std::int64_t acknowledged);
Result<void> save_commands(Connection& connection, const InstanceKey& key,
                           const std::vector<wire::Command>& commands);
Result<void> delete_instances(Connection& connection, const std::string& job);

struct Tag {
  std::string key;
  std::string value;
};
Result<void> put_tag(Connection& connection, const std::string& arn, const Tag& tag);
Result<void> delete_tag(Connection& connection, const std::string& arn, const std::string& key);
Result<void> delete_tags(Connection& connection, const std::string& arn);
Result<std::vector<Tag>> tags_of(Connection& connection, const std::string& arn);  // by key

}  // namespace trainyard::control
