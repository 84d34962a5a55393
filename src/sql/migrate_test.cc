// SPDX-License-Identifier: Apache-2.0
#include "sql/migrate.h"

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::sql {
namespace {

constexpr std::string_view kTable = "CREATE TABLE t(n)";

struct MigrateTest : testing::Test {
  MigrateTest() { EXPECT_TRUE(write_file(file, "", 0600)); }

  Result<void> migrate_to(std::initializer_list<std::string_view> migrations) {
    Connection connection = *Connection::open(file, Access::kWrite);
    return migrate(connection, file, std::span(migrations.begin(), migrations.size()));
  }
  static std::int64_t count(const Path& of) {
    Connection connection = *Connection::open(of, Access::kRead);
    Statement statement = *connection.prepare("SELECT count(*) FROM t");
    return *statement.step() ? statement.integer(0) : -1;
  }

  TempDir folder = *TempDir::make();
  Path file = folder.path() / "test.db";
};

TEST_F(MigrateTest, AppliesOnlyTheMigrationsThatAreMissing) {
  ASSERT_TRUE(migrate_to({kTable}));
  EXPECT_TRUE(migrate_to({"this is not SQL and must not run again", "INSERT INTO t VALUES(1)"}));
  EXPECT_EQ(count(file), 1);
}

TEST_F(MigrateTest, KeepsACopyOfWhatAMigrationChanges) {
  ASSERT_TRUE(migrate_to({"CREATE TABLE t(n); INSERT INTO t VALUES(1)"}));
  ASSERT_TRUE(migrate_to({kTable, "DELETE FROM t"}));
  EXPECT_EQ(count(file), 0);
  EXPECT_EQ(count(file.string() + ".version-1"), 1);
}

TEST_F(MigrateTest, ChangesNothingThatItCannotCopyFirst) {
  ASSERT_TRUE(migrate_to({kTable}));
  ASSERT_TRUE(make_directories(file.string() + ".version-1.draft/full"));
  ASSERT_FALSE(migrate_to({kTable, "DROP TABLE t"}));
  EXPECT_EQ(count(file), 0);
}

TEST_F(MigrateTest, AMigrationThatFailsIsUndoneWhole) {
  ASSERT_TRUE(migrate_to({kTable}));
  const auto failed =
      migrate_to({kTable, "INSERT INTO t VALUES(1); INSERT INTO missing VALUES(1)"});
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, testing::HasSubstr("to version 2"));
  EXPECT_EQ(count(file), 0);
  EXPECT_TRUE(migrate_to({kTable, "INSERT INTO t VALUES(1)"}));
}

TEST_F(MigrateTest, RefusesAFileOfANewerProgram) {
  ASSERT_TRUE(migrate_to({kTable, "CREATE TABLE other(n)"}));
  EXPECT_EQ(migrate_to({kTable}).error().code, Code::kUnimplemented);
}

}  // namespace
}  // namespace trainyard::sql
