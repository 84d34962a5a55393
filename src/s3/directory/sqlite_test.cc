// SPDX-License-Identifier: Apache-2.0
#include "s3/directory/sqlite.h"

#include <gtest/gtest.h>

#include "base/file.h"

namespace trainyard::s3 {
namespace {

TEST(Sqlite, AFileThatMayNotBeWrittenIsNotTheClientsFault) {
  const TempDir folder = *TempDir::make();
  const auto connection = *Connection::open(folder.path() / "db");
  ASSERT_TRUE(connection->execute("CREATE TABLE t(n); PRAGMA query_only=1"));
  EXPECT_EQ(connection->execute("INSERT INTO t VALUES(1)").error().code, Code::kInternal);
}

TEST(Sqlite, AFileThatCannotBeOpenedMayBeOpenedLater) {
  const TempDir folder = *TempDir::make();
  const auto connection = Connection::open(folder.path() / "missing" / "db");
  ASSERT_FALSE(connection);
  EXPECT_EQ(connection.error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace trainyard::s3
