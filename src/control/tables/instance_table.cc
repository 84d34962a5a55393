// SPDX-License-Identifier: Apache-2.0
// The instances and tags of job_table.h.
#include <fmt/format.h>

#include "control/tables/job_table.h"
#include "formats/json.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

json json_of(const std::vector<wire::Command>& commands) {
  json list = json::array();
  for (const wire::Command& command : commands) {
    list.push_back(wire::to_json(command));
  }
  return list;
}

Error corrupt(const InstanceKey& key) {
  return {.code = Code::kCorrupt,
          .message = fmt::format("the row of {} of job {} is damaged", key.host, key.job)};
}

Result<InstanceRow> row_of(const Statement& statement) {
  InstanceRow row{.key = {.job = statement.text(0),
                          .epoch = static_cast<int>(statement.integer(1)),
                          .host = statement.text(2)},
                  .token_hash = statement.text(3),
                  .facts = {.host = statement.text(2)},
                  .acknowledged = statement.integer(5)};
  const json facts = json::parse(statement.text(4), nullptr, /*allow_exceptions=*/false);
  const json commands = json::parse(statement.text(6), nullptr, /*allow_exceptions=*/false);
  if (!facts.is_object() || !commands.is_array()) {
    return corrupt(row.key);
  }
  YARD_TRY(facts_from_json(facts, row.facts));
  for (const json& item : commands) {
    YARD_TRY(wire::Command command, wire::command_from_json(item));
    row.commands.push_back(std::move(command));
  }
  return row;
}

void bind_key(Statement& statement, const InstanceKey& key) {
  statement.bind_text("job", key.job)
      .bind("epoch", std::int64_t{key.epoch})
      .bind_text("host", key.host);
}

}  // namespace

Result<void> insert_instance(Connection& connection, const InstanceRow& row) {
  YARD_TRY(Statement statement,
           connection.prepare(
               "INSERT INTO instance (job, epoch, host, token_hash, facts, acknowledged, commands) "
               "VALUES (:job, :epoch, :host, :token_hash, :facts, :acknowledged, :commands)"));
  bind_key(statement, row.key);
  return statement.bind_text("token_hash", row.token_hash)
      .bind_text("facts", dump_json(facts_to_json(row.facts)))
      .bind("acknowledged", row.acknowledged)
      .bind_text("commands", dump_json(json_of(row.commands)))
      .run();
}

Result<std::vector<InstanceRow>> instances_of(Connection& connection, const std::string& job,
                                              int epoch) {
  YARD_TRY(Statement statement,
           connection.prepare(
               "SELECT job, epoch, host, token_hash, facts, acknowledged, commands FROM instance "
               "WHERE job = :job AND epoch = :epoch ORDER BY length(host), host"));
  statement.bind_text("job", job).bind("epoch", std::int64_t{epoch});
  std::vector<InstanceRow> rows;
  while (true) {
    YARD_TRY(const bool found, statement.step());
    if (!found) {
      return rows;
    }
    YARD_TRY(InstanceRow row, row_of(statement));
    rows.push_back(std::move(row));
  }
}

Result<bool> save_facts(Connection& connection, const InstanceKey& key, const InstanceFacts& facts,
                        std::int64_t acknowledged) {
  YARD_TRY(Statement statement,
           connection.prepare("UPDATE instance SET facts = :facts, acknowledged = :acknowledged "
                              "WHERE job = :job AND epoch = :epoch AND host = :host"));
  bind_key(statement, key);
  statement.bind_text("facts", dump_json(facts_to_json(facts))).bind("acknowledged", acknowledged);
  YARD_TRY(statement.run());
  return connection.changes() > 0;
}

Result<void> save_commands(Connection& connection, const InstanceKey& key,
                           const std::vector<wire::Command>& commands) {
  YARD_TRY(Statement statement,
           connection.prepare("UPDATE instance SET commands = :commands WHERE job = :job AND "
                              "epoch = :epoch AND host = :host"));
  bind_key(statement, key);
  return statement.bind_text("commands", dump_json(json_of(commands))).run();
}

Result<void> delete_instances(Connection& connection, const std::string& job) {
  YARD_TRY(Statement statement, connection.prepare("DELETE FROM instance WHERE job = :job"));
  return statement.bind_text("job", job).run();
}

Result<void> put_tag(Connection& connection, const std::string& arn, const Tag& tag) {
  YARD_TRY(Statement statement,
           connection.prepare("INSERT INTO tag (arn, tag_key, tag_value) VALUES (:arn, :key, "
                              ":value) ON CONFLICT (arn, tag_key) DO UPDATE SET tag_value = "
                              "excluded.tag_value"));
  return statement.bind_text("arn", arn)
      .bind_text("key", tag.key)
      .bind_text("value", tag.value)
      .run();
}

Result<void> delete_tag(Connection& connection, const std::string& arn, const std::string& key) {
  YARD_TRY(Statement statement,
           connection.prepare("DELETE FROM tag WHERE arn = :arn AND tag_key = :key"));
  return statement.bind_text("arn", arn).bind_text("key", key).run();
}

Result<void> delete_tags(Connection& connection, const std::string& arn) {
  YARD_TRY(Statement statement, connection.prepare("DELETE FROM tag WHERE arn = :arn"));
  return statement.bind_text("arn", arn).run();
}

Result<std::vector<Tag>> tags_of(Connection& connection, const std::string& arn) {
  YARD_TRY(Statement statement,
           connection.prepare("SELECT tag_key, tag_value FROM tag WHERE arn = :arn ORDER BY "
                              "tag_key"));
  statement.bind_text("arn", arn);
  std::vector<Tag> tags;
  while (true) {
    YARD_TRY(const bool found, statement.step());
    if (!found) {
      return tags;
    }
    tags.push_back({.key = statement.text(0), .value = statement.text(1)});
  }
}

}  // namespace trainyard::control
