// SPDX-License-Identifier: Apache-2.0
#include "control/tables/database.h"

#include <array>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "control/tables/schema.h"

namespace trainyard::control {
namespace {

constexpr std::array<std::string_view, 1> kOneTable{
    "CREATE TABLE pair (name TEXT PRIMARY KEY, value INTEGER)"};

class DatabaseTest : public testing::Test {
 protected:
  std::unique_ptr<Database> open(std::span<const std::string_view> migrations = kOneTable) {
    auto database = Database::open(file(), migrations);
    EXPECT_TRUE(database) << database.error().message;
    return database ? std::move(*database) : nullptr;
  }
  Path file() const { return directory_.path() / "test.db"; }

  TempDir directory_ = *TempDir::make();
};

Result<void> insert(Connection& connection, std::string_view name, std::int64_t value) {
  YARD_TRY(Statement statement,
           connection.prepare("INSERT INTO pair (name, value) VALUES (:name, :value)"));
  return statement.bind("name", name).bind("value", value).run();
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
    statement.bind("name", std::string_view("a'b\xc3\xa9"));
    YARD_TRY(statement.step());
    return statement.integer(0);
  });
  EXPECT_EQ(*value, 7);
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

TEST_F(DatabaseTest, TellsNullFromZero) {
  const auto database = open();
  const auto is_null = database->write([](Connection& connection) -> Result<bool> {
    YARD_TRY(Statement put, connection.prepare("INSERT INTO pair (name, value) VALUES ('a', :v)"));
    YARD_TRY(put.bind("v", std::optional<std::int64_t>()).run());
    YARD_TRY(Statement get, connection.prepare("SELECT value FROM pair"));
    YARD_TRY(get.step());
    return get.is_null(0);
  });
  EXPECT_TRUE(*is_null);
}

TEST_F(DatabaseTest, AppliesOnlyTheMigrationsThatAreMissing) {
  open();
  constexpr std::array<std::string_view, 2> kTwo{"this is not SQL and must not run again",
                                                 "ALTER TABLE pair ADD COLUMN more TEXT"};
  EXPECT_NE(open(kTwo), nullptr);
}

TEST_F(DatabaseTest, KeepsACopyOfWhatAMigrationChanges) {
  ASSERT_TRUE(open()->write([](Connection& connection) { return insert(connection, "a", 1); }));
  constexpr std::array<std::string_view, 2> kTwo{kOneTable[0], "DELETE FROM pair"};
  EXPECT_EQ(*open(kTwo)->read(count), 0);
  const auto before = Database::open(file().string() + ".version-1", kOneTable);
  ASSERT_TRUE(before) << before.error().message;
  EXPECT_EQ(*(*before)->read(count), 1);
}

TEST_F(DatabaseTest, MigratesNothingThatItCannotCopyFirst) {
  open();
  ASSERT_TRUE(make_directories(file().string() + ".version-1.draft/full"));
  constexpr std::array<std::string_view, 2> kTwo{kOneTable[0], "DROP TABLE pair"};
  ASSERT_FALSE(Database::open(file(), kTwo));
  EXPECT_EQ(*open()->read(count), 0);
}

TEST_F(DatabaseTest, NewFilesHaveNothingToCopy) {
  open(schema_migrations());
  for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
    EXPECT_EQ(entry.path().string().find("version"), std::string::npos) << entry.path();
  }
}

TEST_F(DatabaseTest, ChecksALargeFileForABoundedTime) {
  ASSERT_TRUE(open()->write([](Connection& connection) -> Result<void> {
    return connection.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) "
        "INSERT INTO pair SELECT hex(randomblob(100)), i FROM n");
  }));
  Connection connection = *Connection::open(file(), false);
  EXPECT_TRUE(*connection.check(std::chrono::minutes(1)));
  EXPECT_FALSE(*connection.check(std::chrono::milliseconds(0)));
  EXPECT_TRUE(connection.check_all());
  EXPECT_EQ(*open()->read(count), 20000);  // an interrupted check leaves nothing behind
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

TEST_F(DatabaseTest, ACheckOfAllFindsRowsThatReferToNothing) {
  constexpr std::array<std::string_view, 1> kTwoTables{
      "CREATE TABLE a (id INTEGER PRIMARY KEY); CREATE TABLE b (a INTEGER REFERENCES a (id))"};
  open(kTwoTables);
  Connection connection = *Connection::open(file(), false);
  ASSERT_TRUE(connection.execute("INSERT INTO b VALUES (7)"));
  EXPECT_TRUE(*connection.check(std::chrono::minutes(1)));
  const auto checked = connection.check_all();
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message.find("a row of b refers to one of a"), std::string::npos);
}

TEST_F(DatabaseTest, ACopyIsOfOneMomentAndReplacesNothing) {
  const auto database = open();
  ASSERT_TRUE(database->write([](Connection& connection) { return insert(connection, "a", 1); }));
  const Path copy = directory_.path() / "copy.db";
  Connection source = *Connection::open(file(), true);
  ASSERT_TRUE(source.copy_to(copy));
  ASSERT_TRUE(database->write([](Connection& connection) { return insert(connection, "b", 1); }));
  EXPECT_EQ(source.copy_to(copy).error().code, Code::kAlreadyExists);
  EXPECT_EQ(*(*Database::open(copy, kOneTable))->read(count), 1);
}

TEST_F(DatabaseTest, RefusesAFileOfANewerProgram) {
  constexpr std::array<std::string_view, 2> kTwo{kOneTable[0], "CREATE TABLE other (a TEXT)"};
  open(kTwo);
  const auto older = Database::open(file(), kOneTable);
  ASSERT_FALSE(older);
  EXPECT_EQ(older.error().code, Code::kUnimplemented);
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

TEST_F(DatabaseTest, AcceptsTheSchema) {
  EXPECT_NE(open(schema_migrations()), nullptr);
}

}  // namespace
}  // namespace trainyard::control
