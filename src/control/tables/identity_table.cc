// SPDX-License-Identifier: Apache-2.0
#include "control/tables/identity_table.h"

namespace trainyard::control {

Result<void> insert_key(Connection& connection, const KeyRow& row) {
  YARD_TRY(Statement statement,
           connection.prepare(
               "INSERT INTO access_key (access_key_id, secret_access_key, session_token, expires, "
               "arn, user_id, job, epoch) VALUES (:id, :secret, :token, :expires, :arn, :user, "
               ":job, :epoch)"));
  std::optional<std::int64_t> expires;
  if (row.key.expires) {
    expires = row.key.expires->time_since_epoch().count();
  }
  return statement.bind_text("id", row.key.access_key_id)
      .bind_text("secret", row.key.secret_access_key)
      .bind_text("token", row.key.session_token)
      .bind("expires", expires)
      .bind_text("arn", row.key.arn)
      .bind_text("user", row.key.user_id)
      .bind_text("job", row.job)
      .bind("epoch", std::int64_t{row.epoch})
      .run();
}

Result<std::vector<KeyRow>> all_keys(Connection& connection) {
  YARD_TRY(Statement statement,
           connection.prepare("SELECT access_key_id, secret_access_key, session_token, expires, "
                              "arn, user_id, job, epoch FROM access_key ORDER BY "
                              "access_key_id"));
  std::vector<KeyRow> rows;
  while (true) {
    YARD_TRY(const bool found, statement.step());
    if (!found) {
      return rows;
    }
    KeyRow row{.key = {.access_key_id = statement.text(0),
                       .secret_access_key = statement.text(1),
                       .session_token = statement.text(2),
                       .arn = statement.text(4),
                       .user_id = statement.text(5)},
               .job = statement.text(6),
               .epoch = static_cast<int>(statement.integer(7))};
    if (!statement.is_null(3)) {
      row.key.expires = WallTime(Duration(statement.integer(3)));
    }
    rows.push_back(std::move(row));
  }
}

Result<void> delete_keys_of(Connection& connection, const std::string& job, int epoch) {
  YARD_TRY(Statement statement,
           connection.prepare("DELETE FROM access_key WHERE job = :job AND epoch <= :epoch"));
  return statement.bind_text("job", job).bind("epoch", std::int64_t{epoch}).run();
}

}  // namespace trainyard::control
