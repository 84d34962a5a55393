// SPDX-License-Identifier: Apache-2.0
// What failures of SQLite become: by table, and as they happen.
#include "sql/internal/error.h"

#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include "sql/connection.h"

namespace trainyard::sql {
namespace {

using ::testing::HasSubstr;

class CodeOf : public testing::TestWithParam<std::pair<int, Code>> {};

TEST_P(CodeOf, SaysWhatItMeansToWhoeverAsked) {
  EXPECT_EQ(code_of(GetParam().first), GetParam().second);
}

INSTANTIATE_TEST_SUITE_P(Codes, CodeOf,
                         testing::Values(std::pair(SQLITE_FULL, Code::kExhausted),
                                         std::pair(SQLITE_NOMEM, Code::kExhausted),
                                         std::pair(SQLITE_CORRUPT_INDEX, Code::kCorrupt),
                                         std::pair(SQLITE_NOTADB, Code::kCorrupt),
                                         std::pair(SQLITE_BUSY_SNAPSHOT, Code::kUnavailable),
                                         std::pair(SQLITE_LOCKED, Code::kUnavailable),
                                         std::pair(SQLITE_IOERR_FSYNC, Code::kUnavailable),
                                         std::pair(SQLITE_CANTOPEN, Code::kUnavailable),
                                         std::pair(SQLITE_INTERRUPT, Code::kCancelled),
                                         std::pair(SQLITE_PERM, Code::kInternal),
                                         std::pair(SQLITE_READONLY_DIRECTORY, Code::kInternal),
                                         std::pair(SQLITE_MISUSE, Code::kInternal),
                                         std::pair(SQLITE_CONSTRAINT_PRIMARYKEY,
                                                   Code::kAlreadyExists),
                                         std::pair(SQLITE_CONSTRAINT_ROWID, Code::kAlreadyExists),
                                         std::pair(SQLITE_CONSTRAINT_UNIQUE, Code::kAlreadyExists),
                                         std::pair(SQLITE_CONSTRAINT_FOREIGNKEY, Code::kInternal),
                                         std::pair(SQLITE_CONSTRAINT_NOTNULL, Code::kInternal)));

struct ErrorTest : testing::Test {
  ErrorTest() { EXPECT_TRUE(write_file(file, "", 0600)); }
  Connection open() { return *Connection::open(file, Access::kWrite); }

  TempDir folder = *TempDir::make();
  Path file = folder.path() / "test.db";
};

TEST_F(ErrorTest, AFileThatMayNotBeWrittenIsNotTheClientsFault) {
  Connection connection = open();
  ASSERT_TRUE(connection.execute("CREATE TABLE t(n); PRAGMA query_only = 1"));
  EXPECT_EQ(connection.execute("INSERT INTO t VALUES(1)").error().code, Code::kInternal);
}

TEST_F(ErrorTest, AFileThatCannotBeOpenedMayBeOpenedLater) {
  const auto connection = Connection::open(folder.path() / "missing" / "db", Access::kWrite);
  ASSERT_FALSE(connection);
  EXPECT_EQ(connection.error().code, Code::kUnavailable);
}

TEST_F(ErrorTest, AWriterInTheWayMayPass) {
  Connection first = open();
  Connection second = open();
  ASSERT_TRUE(first.execute("BEGIN IMMEDIATE"));
  ASSERT_TRUE(second.execute("PRAGMA busy_timeout = 0"));
  EXPECT_EQ(second.execute("BEGIN IMMEDIATE").error().code, Code::kUnavailable);
}

TEST_F(ErrorTest, NamesTheFile) {
  Connection connection = open();
  EXPECT_THAT(connection.execute("no SQL").error().message, HasSubstr("test.db: "));
  EXPECT_THAT(connection.prepare("SELECT x FROM y").error().message, HasSubstr("test.db: "));
}

}  // namespace
}  // namespace trainyard::sql
