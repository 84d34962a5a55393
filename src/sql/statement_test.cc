// SPDX-License-Identifier: Apache-2.0
#include "sql/statement.h"

#include <gtest/gtest.h>

#include "sql/connection.h"

namespace trainyard::sql {
namespace {

struct StatementTest : testing::Test {
  StatementTest() {
    EXPECT_TRUE(write_file(file, "", 0600));
    connection.emplace(*Connection::open(file, Access::kWrite));
    EXPECT_TRUE(connection->execute("PRAGMA journal_mode = WAL; CREATE TABLE t(k, v)"));
  }
  Statement prepare(std::string_view sql) { return *connection->prepare(sql); }
  std::int64_t count(std::string_view where) {
    Statement statement = prepare("SELECT count(*) FROM t WHERE " + std::string(where));
    return *statement.step() ? statement.integer(0) : -1;
  }

  TempDir folder = *TempDir::make();
  Path file = folder.path() / "test.db";
  std::optional<Connection> connection;
};

TEST_F(StatementTest, TakesValuesByNameAndByNumber) {
  ASSERT_TRUE(prepare("INSERT INTO t VALUES(:k, :v)").bind_text("k", "a").bind("v", 1).run());
  ASSERT_TRUE(prepare("INSERT INTO t VALUES(?1, ?2)").bind(2, 2).bind_text(1, "a").run());
  EXPECT_EQ(count("k = 'a' AND v IN (1, 2)"), 2);
}

TEST_F(StatementTest, TellsNullFromZeroAndFromNothing) {
  Statement put = prepare("INSERT INTO t VALUES(:k, :v)");
  ASSERT_TRUE(put.bind_text("k", {}).bind("v", std::optional<std::int64_t>()).run());
  Statement get = prepare("SELECT k, v FROM t");
  ASSERT_TRUE(*get.step());
  EXPECT_FALSE(get.is_null(0));
  EXPECT_EQ(get.text(0), "");
  EXPECT_TRUE(get.is_null(1));
}

TEST_F(StatementTest, TellsBytesFromText) {
  const std::string bytes("a\0\xff", 3);
  ASSERT_TRUE(prepare("INSERT INTO t VALUES(?1, ?2)").bind_bytes(1, bytes).bind_real(2, 0.5).run());
  ASSERT_TRUE(prepare("INSERT INTO t VALUES(?1, ?2)").bind_bytes(1, {}).bind_real(2, 1).run());
  EXPECT_EQ(count("typeof(k) = 'blob'"), 2);
  Statement get = prepare("SELECT k, v FROM t ORDER BY v");
  ASSERT_TRUE(*get.step());
  EXPECT_EQ(get.text(0), bytes);
  EXPECT_EQ(get.real(1), 0.5);
}

TEST_F(StatementTest, KeepsItsValuesUntilTheyAreReplaced) {
  Statement put = prepare("INSERT INTO t VALUES(?1, ?2)");
  ASSERT_TRUE(put.bind_text(1, std::string(100, 'x')).bind(2, 1).run());
  put.reset();
  ASSERT_TRUE(put.bind(2, 2).run());
  EXPECT_EQ(count("k = '" + std::string(100, 'x') + "'"), 2);
}

TEST_F(StatementTest, TheNextUseOfItsTextHasNoValues) {
  constexpr std::string_view kPut = "INSERT INTO t VALUES(?1, 1)";
  ASSERT_TRUE(prepare(kPut).bind_text(1, "a").run());
  ASSERT_TRUE(prepare(kPut).run());
  EXPECT_EQ(count("k IS NULL"), 1);
}

TEST_F(StatementTest, ItsTextMayBeUsedTwiceAtOnce) {
  ASSERT_TRUE(connection->execute("INSERT INTO t VALUES(1, 1), (2, 2)"));
  constexpr std::string_view kGet = "SELECT k FROM t ORDER BY k";
  Statement first = prepare(kGet);
  ASSERT_TRUE(*first.step());
  Statement second = prepare(kGet);
  ASSERT_TRUE(*second.step());
  ASSERT_TRUE(*first.step());
  EXPECT_EQ(first.integer(0), 2);
  EXPECT_EQ(second.integer(0), 1);
}

TEST_F(StatementTest, OneThatGoesLetsGoOfTheMomentItHasSeen) {
  ASSERT_TRUE(connection->execute("INSERT INTO t VALUES(1, 1), (2, 2)"));
  Connection reader = *Connection::open(file, Access::kRead);
  ASSERT_TRUE(*reader.prepare("SELECT k FROM t")->step());
  ASSERT_TRUE(connection->execute("INSERT INTO t VALUES(3, 3)"));
  Statement tidy = prepare("PRAGMA wal_checkpoint(RESTART)");
  ASSERT_TRUE(connection->execute("PRAGMA busy_timeout = 0"));
  ASSERT_TRUE(*tidy.step());
  EXPECT_EQ(tidy.integer(0), 0);  // else a reader is in the way
}

TEST_F(StatementTest, AValueThatCannotBeBoundFailsTheStep) {
  const auto done = prepare("INSERT INTO t VALUES(?1, 1)").bind(1, 1).bind(7, 1).run();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kInternal);
  EXPECT_EQ(count("1"), 0);
}

}  // namespace
}  // namespace trainyard::sql
