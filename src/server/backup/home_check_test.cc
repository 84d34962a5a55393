// SPDX-License-Identifier: Apache-2.0
#include "server/backup/home_check.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/testing/home_in_use.h"
#include "sql/connection.h"

namespace trainyard::server {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

using HomeCheckTest = HomeInUse;

TEST_F(HomeCheckTest, ACheckOfAHomeInUseFindsNothing) {
  const auto report = check_home(home(), nobody_looks);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_THAT(report->problems, IsEmpty());
  EXPECT_EQ(report->contents, 2u);
  EXPECT_EQ(report->log_lines, 1u);
}

TEST_F(HomeCheckTest, ACheckNamesEachDamagedFile) {
  for (int i = 0; i < 3; ++i) {
    log("x");
  }
  logs_.reset();
  const Path missing = content_in(home());
  std::filesystem::remove(missing);
  const Path shorter = content_in(home());
  std::filesystem::resize_file(shorter, 1);
  Path segment;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(home() / "logs")) {
    segment = entry.path().extension() == ".log" ? entry.path() : segment;
  }
  std::string bytes = *read_file(segment);
  bytes[40] = static_cast<char>(bytes[40] ^ 1);
  ASSERT_TRUE(write_file(segment, bytes));
  const auto report = check_home(home(), nobody_looks);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_THAT(report->problems,
              testing::UnorderedElementsAre(HasSubstr(missing.string()),
                                            HasSubstr(shorter.string() + ": has 1 bytes"),
                                            HasSubstr(segment.string() + ": 27 bytes")));
}

TEST_F(HomeCheckTest, CountsAllProblemsAndNamesAHundred) {
  ASSERT_TRUE(make());
  {
    auto index = *sql::Connection::open(backup() / "objects" / "index.db", sql::Access::kWrite);
    std::string script = "BEGIN; CREATE TEMP TABLE t AS SELECT * FROM objects LIMIT 1;";
    for (int i = 0; i < 150; ++i) {
      const std::string id = fmt::format("{:032x}", i);
      script += fmt::format(
          "UPDATE t SET key = CAST('{0}' AS BLOB), content = CAST('{0}' AS BLOB);"
          "INSERT INTO objects SELECT * FROM t;",
          id);
    }
    ASSERT_TRUE(index.execute(script + "COMMIT"));
  }
  const auto report = check_home(backup(), nobody_looks);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->problem_count, 150u);
  ASSERT_EQ(report->problems.size(), 101u);
  EXPECT_EQ(report->problems.back(), "and 50 more");
}

TEST_F(HomeCheckTest, AContentThatIsReplacedMeanwhileIsNotMissing) {
  bool is_replaced = false;
  const auto report = check_home(home(), [&](const auto&, auto, auto) {
    if (!std::exchange(is_replaced, true)) {
      put("a", "again");
      put("b", "again");
    }
    return Result<void>();
  });
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_THAT(report->problems, IsEmpty());
}

}  // namespace
}  // namespace trainyard::server
