// SPDX-License-Identifier: Apache-2.0
// Every SQL statement about access keys.
#pragma once

#include <string>
#include <vector>

#include "control/control.h"
#include "control/tables/database.h"

namespace trainyard::control {

struct KeyRow {
  AccessKey key;
  std::string job;  // empty: not of a job
  int epoch = 0;    // of the job's attempt
};

Result<void> insert_key(Connection& connection, const KeyRow& row);
Result<std::vector<KeyRow>> all_keys(Connection& connection);
// Those of the attempts up to `epoch`.
Result<void> delete_keys_of(Connection& connection, const std::string& job, int epoch);

}  // namespace trainyard::control
