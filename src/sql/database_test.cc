// SPDX-License-Identifier: Apache-2.0
#include "sql/database.h"

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

namespace trainyard::sql {
namespace {

using ::testing::ElementsAre;

constexpr std::array<std::string_view, 1> kOneTable{
    "CREATE TABLE pair (name TEXT PRIMARY KEY, value INTEGER)"};

class DatabaseTest : public testing::Test {
 protected:
  std::unique_ptr<Database> open() {
    auto database = Database::open(file(), kOneTable);
    EXPECT_TRUE(database) << database.error().message;
    return database ? std::move(*database) : nullptr;
  }
  Path file() const { return directory_.path() / "test.db"; }

  TempDir directory_ = *TempDir::make();
};

Result<void> insert(Connection& connection, std::string_view name, std::int64_t value) {
  YARD_TRY(Statement statement,
           connection.prepare("INSERT INTO pair (name, value) VALUES (:name, :value)"));
  return statement.bind_text("name", name).bind("value", value).run();
}

Result<std::int64_t> count(Connection& connection) {
  YARD_TRY(Statement statement, connection.prepare("SELECT COUNT(*) FROM pair"));
  YARD_TRY(statement.step());
  return statement.integer(0);
}

TEST_F(DatabaseTest, KeepsWhatWasCommittedAcrossOpens) {
  const auto put = [](Connection& connection) { return insert(connection, "a'b\xc3\xa9", 7); };
  ASSERT_TRUE(open()->write(put));
  const auto value = open()->read([](Connection& connection) -> Result<std::int64_t> {
    YARD_TRY(Statement statement, connection.prepare("SELECT value FROM pair WHERE name = :name"));
    statement.bind_text("name", "a'b\xc3\xa9");
    YARD_TRY(statement.step());
    return statement.integer(0);
  });
  EXPECT_EQ(*value, 7);
}

TEST_F(DatabaseTest, GivesTheAnswerOfTheBody) {
  const auto database = open();
  EXPECT_EQ(*database->write([](Connection& connection) -> Result<std::int64_t> {
    YARD_TRY(insert(connection, "a", 1));
    return count(connection);
  }),
            1);
}

TEST_F(DatabaseTest, RollsBackWhenTheBodyFails) {
  const auto database = open();
  const auto result = database->write([](Connection& connection) -> Result<void> {
    YARD_TRY(insert(connection, "a", 1));
    return insert(connection, "a", 2);
  });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kAlreadyExists);
  EXPECT_EQ(*database->read(count), 0);
}

TEST_F(DatabaseTest, WhatIsHandedInIsThereWhenItsTicketSaysSo) {
  const auto database = open();
  auto ticket =
      database->hand_in([](Connection& connection) { return insert(connection, "a", 1); });
  ASSERT_TRUE(ticket.wait());
  EXPECT_EQ(*database->read(count), 1);
}

// Whether the row is there after write() was interrupted at this moment.
class Interrupted : public DatabaseTest,
                    public testing::WithParamInterface<std::pair<Database::Moment, int>> {};

TEST_P(Interrupted, EndsTheTransactionAsACrashWould) {
  const auto [moment, rows] = GetParam();
  {
    const auto database = open();
    database->interrupt_by([&, at = moment](Database::Moment now) {
      return now == at ? Result<void>(Error{.code = Code::kUnavailable, .message = "no power"})
                       : Result<void>();
    });
    const auto put = [](Connection& connection) { return insert(connection, "a", 1); };
    EXPECT_EQ(database->write(put).error().message, "no power");
  }
  EXPECT_EQ(*open()->read(count), rows);
}

INSTANTIATE_TEST_SUITE_P(Moments, Interrupted,
                         testing::Values(std::pair(Database::Moment::kBeforeCommit, 0),
                                         std::pair(Database::Moment::kAfterCommit, 1)));

TEST_F(DatabaseTest, ReadersThatAreOpenAtTheSameTimeSeeTheSame) {
  const auto database = open();
  ASSERT_TRUE(database->write([](Connection& connection) { return insert(connection, "a", 1); }));
  auto first = *database->reader();
  auto second = *database->reader();
  EXPECT_EQ(*count(*first), 1);
  EXPECT_EQ(*count(*second), 1);
}

TEST_F(DatabaseTest, AnOrderlyEndLeavesOneFile) {
  {
    const auto database = open();
    ASSERT_TRUE(database->write([](Connection& connection) { return insert(connection, "a", 1); }));
    ASSERT_TRUE(database->read(count));
  }
  std::vector<Path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
    files.push_back(entry.path());
  }
  EXPECT_THAT(files, ElementsAre(file()));
}

TEST_F(DatabaseTest, ADamagedPageIsFound) {
  ASSERT_TRUE(open()->write([](Connection& connection) -> Result<void> {
    return connection.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) "
        "INSERT INTO pair SELECT hex(randomblob(20)), i FROM n");
  }));
  std::string bytes = *read_file(file());
  std::fill_n(bytes.begin() + 4 * 4096, 64, '\xff');
  ASSERT_TRUE(write_file(file(), bytes, 0600));
  const auto opened = Database::open(file(), kOneTable);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::kCorrupt);
}

TEST_F(DatabaseTest, RefusesAFileThatIsNoDatabase) {
  ASSERT_TRUE(write_file(file(), std::string(8192, 'x')));
  const auto database = Database::open(file(), kOneTable);
  ASSERT_FALSE(database);
  EXPECT_EQ(database.error().code, Code::kCorrupt);
}

TEST_F(DatabaseTest, IsReadableByItsOwnerOnly) {
  open();
  struct stat status {};
  ASSERT_EQ(stat(file().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

}  // namespace
}  // namespace trainyard::sql
