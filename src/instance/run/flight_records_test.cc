// SPDX-License-Identifier: Apache-2.0
#include "instance/run/flight_records.h"

#include <filesystem>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

namespace trainyard::instance {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class FlightRecordsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(make_directories(status()));
    ASSERT_TRUE(make_directories(data()));
  }
  Path status() const { return directory_.path() / "status"; }
  Path ml() const { return directory_.path() / "ml"; }
  Path data() const { return ml() / "output/data"; }
  std::vector<std::string> keep(const FlightRecordLimits& limits = {}) const {
    return keep_flight_records(status(), ml(), "algo-2", limits);
  }
  void leave(const std::string& name, const std::string& text) const {
    ASSERT_TRUE(write_file(status() / name, text));
  }

  TempDir directory_ = *TempDir::make("trainyard-flight-");
};

TEST_F(FlightRecordsTest, ComeWithTheOutputUnderTheNameOfTheirHost) {
  ASSERT_TRUE(write_file(status() / "flight-rank-3.group_0.jsonl", "{}\n"));
  ASSERT_TRUE(write_file(status() / "rank-3.group_0", "progress"));
  EXPECT_THAT(keep(), ElementsAre("The collectives' flight records are in output.tar.gz: "
                                  "flight-algo-2-rank-3.group_0.jsonl"));
  EXPECT_EQ(read_file(data() / "flight-algo-2-rank-3.group_0.jsonl").value_or("(none)"), "{}\n");
  EXPECT_FALSE(fs::exists(data() / "rank-3.group_0"));
}

TEST_F(FlightRecordsTest, AreNoneWhereNothingWentWrong) {
  EXPECT_THAT(keep(), IsEmpty());
  EXPECT_TRUE(fs::is_empty(data())) << "or the job would have an output";
}

TEST_F(FlightRecordsTest, AreNamedShortlyWhereThereAreMany) {
  for (int i = 10; i < 40; ++i) {
    ASSERT_TRUE(
        write_file(status() / ("flight-rank-" + std::to_string(i) + ".group_0.jsonl"), "{}\n"));
  }
  EXPECT_THAT(keep(), ElementsAre(AllOf(HasSubstr("rank-17"), EndsWith(" and 22 more"))));
  EXPECT_TRUE(fs::exists(data() / "flight-algo-2-rank-39.group_0.jsonl"));
}

TEST_F(FlightRecordsTest, FollowNoLinkAndWaitForNoPipe) {
  const Path outside = directory_.path() / "outside";
  ASSERT_TRUE(write_file(outside, "mine"));
  fs::create_symlink(outside, status() / "flight-a.jsonl");
  ASSERT_EQ(mkfifo((status() / "flight-b.jsonl").c_str(), 0600), 0);
  ASSERT_TRUE(write_file(status() / "flight-c.jsonl", "{}\n"));
  fs::create_symlink(outside, data() / "flight-algo-2-c.jsonl");
  EXPECT_THAT(keep(),
              ElementsAre(AllOf(StartsWith("Flight records that are not kept: "),
                                HasSubstr("flight-a.jsonl"), HasSubstr("flight-b.jsonl is none"),
                                HasSubstr("flight-algo-2-c.jsonl"))));
  EXPECT_EQ(read_file(outside).value_or(""), "mine");
}

TEST_F(FlightRecordsTest, GoIntoFilesOnly) {
  leave("flight-a.jsonl", "{}\n");
  const Path pipe = data() / "flight-algo-2-a.jsonl";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const auto reader = open_file(pipe, O_RDONLY | O_NONBLOCK);
  ASSERT_TRUE(reader);
  EXPECT_THAT(keep(), ElementsAre(EndsWith("flight-algo-2-a.jsonl is no file")));
}

TEST_F(FlightRecordsTest, AreNotAnybodysLargeFile) {
  leave("flight-a.jsonl", "12345");
  leave("flight-b.jsonl", "1234");
  EXPECT_THAT(keep({.bytes_each = 4}), ElementsAre(EndsWith(": flight-algo-2-b.jsonl"),
                                                   EndsWith(": flight-a.jsonl is none")));
}

TEST_F(FlightRecordsTest, HaveNoHoles) {
  leave("flight-a.jsonl", "{}\n");
  fs::resize_file(status() / "flight-a.jsonl", std::uintmax_t{1} << 20);
  EXPECT_THAT(keep(), ElementsAre(EndsWith("flight-a.jsonl is none")));
  EXPECT_TRUE(fs::is_empty(data()));
}

TEST_F(FlightRecordsTest, AreKeptAsLongAsThereIsRoomForAll) {
  leave("flight-a.jsonl", "12345");
  leave("flight-b.jsonl", "12345");
  leave("flight-c.jsonl", "123");
  EXPECT_THAT(keep({.bytes_in_all = 8}),
              ElementsAre(EndsWith(": flight-algo-2-a.jsonl, flight-algo-2-c.jsonl"),
                          EndsWith(": flight-b.jsonl is too much beside the others")));
  EXPECT_FALSE(fs::exists(data() / "flight-algo-2-b.jsonl"));
}

TEST_F(FlightRecordsTest, AreOnlySoMany) {
  leave("flight-a.jsonl", "{}\n");
  leave("flight-b.jsonl", "{}\n");
  EXPECT_THAT(keep({.files = 1}), ElementsAre(EndsWith(".jsonl")));
}

}  // namespace
}  // namespace trainyard::instance
