// SPDX-License-Identifier: Apache-2.0
#include "instance/run/raw_output.h"

#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

namespace trainyard::instance {
namespace {

namespace fs = std::filesystem;
using std::string_literals::operator""s;

class RawOutputTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(make_directories(data())); }

  Path ml() const { return directory_.path() / "ml"; }
  Path data() const { return ml() / "output/data"; }
  Result<RawOutput> open(const std::vector<Process>& processes) const {
    return RawOutput::open(ml(), "algo-2", processes);
  }
  static Process rank(int number) {
    Process process;
    process.rank = number;
    return process;
  }
  std::string content(const std::string& name) const {
    return read_file(data() / name).value_or("(none)");
  }

  TempDir directory_ = *TempDir::make("trainyard-raw-");
};

TEST_F(RawOutputTest, KeepsEveryByteAndGoesOnWhereItWas) {
  const std::string bytes = "\xFF\xFE\0\x1b[31m1%\r2%\r\n"s;
  for (int attempt = 0; attempt < 2; ++attempt) {
    auto output = open({Process{}});
    ASSERT_TRUE(output) << output.error().message;
    output->write(0, bytes);
  }
  EXPECT_EQ(content("raw-algo-2.log"), bytes + bytes);
}

TEST_F(RawOutputTest, HasAFileForEachRank) {
  auto output = open({rank(6), rank(7)});
  ASSERT_TRUE(output);
  output->write(1, "seven");
  output->write(0, "six");
  output->write(2, "nobody");
  EXPECT_EQ(content("raw-algo-2-rank-6.log"), "six");
  EXPECT_EQ(content("raw-algo-2-rank-7.log"), "seven");
}

TEST_F(RawOutputTest, FollowsNoLinkThatAJobHasLeft) {
  const Path outside = directory_.path() / "outside";
  ASSERT_TRUE(make_directories(outside));
  ASSERT_TRUE(write_file(outside / "file", "mine"));
  fs::create_symlink(outside / "file", data() / "raw-algo-2.log");
  EXPECT_FALSE(open({Process{}}));
  fs::remove_all(data());
  fs::create_symlink(outside, data());
  EXPECT_FALSE(open({Process{}}));
  EXPECT_EQ(read_file(outside / "file").value_or(""), "mine");
  EXPECT_FALSE(fs::exists(outside / "raw-algo-2.log"));
}

TEST_F(RawOutputTest, DoesNotWaitForAPipeThatAJobHasLeft) {
  ASSERT_EQ(mkfifo((data() / "raw-algo-2.log").c_str(), 0600), 0);
  EXPECT_FALSE(open({Process{}}));
}

TEST(WantsRawOutput, IsAskedByTheEnvironment) {
  const auto asks = [](const char* value) {
    return wants_raw_output({{"Environment", {{"TRAINYARD_RAW_OUTPUT", value}}}});
  };
  EXPECT_TRUE(asks("1"));
  EXPECT_TRUE(asks("true"));
  EXPECT_FALSE(asks("0"));
  EXPECT_FALSE(wants_raw_output(nlohmann::json::object()));
}

}  // namespace
}  // namespace trainyard::instance
