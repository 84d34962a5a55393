// SPDX-License-Identifier: Apache-2.0
// The words of sql/ that this module uses for its database. The *_table files hold every SQL
// statement of this module; Control and the tests open the database with schema.h.
#pragma once

#include "sql/database.h"

namespace trainyard::control {

using sql::Connection;
using sql::Database;
using sql::Statement;

}  // namespace trainyard::control
