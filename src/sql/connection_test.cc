// SPDX-License-Identifier: Apache-2.0
#include "sql/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

namespace trainyard::sql {
namespace {

using ::testing::HasSubstr;

struct ConnectionTest : testing::Test {
  ConnectionTest() {
    EXPECT_TRUE(write_file(file, "", 0600));
    connection.emplace(*Connection::open(file, Access::kWrite));
    EXPECT_TRUE(connection->execute(
        "PRAGMA journal_mode = WAL; CREATE TABLE pair(name TEXT PRIMARY KEY, value INTEGER)"));
  }
  static std::int64_t count(Connection& of) {
    Statement statement = *of.prepare("SELECT count(*) FROM pair");
    return *statement.step() ? statement.integer(0) : -1;
  }

  TempDir folder = *TempDir::make();
  Path file = folder.path() / "test.db";
  std::optional<Connection> connection;
};

TEST_F(ConnectionTest, SaysWhatTheLastStatementDid) {
  ASSERT_TRUE(connection->execute("INSERT INTO pair VALUES('a', 1), ('b', 2)"));
  EXPECT_EQ(connection->changes(), 2);
  EXPECT_EQ(connection->last_row(), 2);
}

TEST_F(ConnectionTest, ReadsWhileAnotherWritesAndSeesWhatWasCommitted) {
  Connection reader = *Connection::open(file, Access::kRead);
  ASSERT_TRUE(connection->execute("BEGIN IMMEDIATE; INSERT INTO pair VALUES('a', 1)"));
  EXPECT_TRUE(connection->in_transaction());
  EXPECT_EQ(count(reader), 0);
  ASSERT_TRUE(connection->execute("COMMIT"));
  EXPECT_EQ(count(reader), 1);
  EXPECT_FALSE(reader.execute("INSERT INTO pair VALUES('b', 1)"));
}

TEST_F(ConnectionTest, ChecksALargeFileForABoundedTime) {
  ASSERT_TRUE(connection->execute(
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) "
      "INSERT INTO pair SELECT hex(randomblob(100)), i FROM n"));
  EXPECT_TRUE(*connection->check(std::chrono::minutes(1)));
  EXPECT_FALSE(*connection->check(std::chrono::milliseconds(0)));
  EXPECT_TRUE(connection->check_all());
  EXPECT_EQ(count(*connection), 20000);  // an interrupted check leaves nothing behind
}

TEST_F(ConnectionTest, ACheckOfAllFindsRowsThatReferToNothing) {
  ASSERT_TRUE(connection->execute(
      "CREATE TABLE a(id INTEGER PRIMARY KEY); CREATE TABLE b(a INTEGER REFERENCES a(id));"
      "PRAGMA foreign_keys = OFF; INSERT INTO b VALUES(7)"));
  EXPECT_TRUE(*connection->check(std::chrono::minutes(1)));
  const auto checked = connection->check_all();
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, Code::kCorrupt);
  EXPECT_THAT(checked.error().message, HasSubstr("a row of b refers to one of a"));
}

TEST_F(ConnectionTest, ACopyIsOfOneMomentAndReplacesNothing) {
  ASSERT_TRUE(connection->execute("INSERT INTO pair VALUES('a', 1)"));
  const Path target = folder.path() / "copy.db";
  Connection source = *Connection::open(file, Access::kRead);
  ASSERT_TRUE(source.copy_to(target));
  ASSERT_TRUE(connection->execute("INSERT INTO pair VALUES('b', 1)"));
  EXPECT_EQ(source.copy_to(target).error().code, Code::kAlreadyExists);
  Connection copy = *Connection::open(target, Access::kRead);
  EXPECT_EQ(count(copy), 1);
  struct stat status {};
  ASSERT_EQ(::stat(target.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

}  // namespace
}  // namespace trainyard::sql
