// SPDX-License-Identifier: Apache-2.0
#include "base/command_line.h"

#include <CLI/CLI.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class CommandLine : public testing::Test {
 protected:
  CommandLine() {
    app_.add_option("--home", home_, "Where it is");
    app_.add_option("--days", days_, "How long")->check(CLI::Range(1, 9));
    app_.add_flag("--json", as_json_, "For programs");
    CLI::App* const import = app_.add_subcommand("import", "Takes a folder");
    import->add_option("folder", folder_, "Which")->required();
  }
  std::optional<Usage> read(const std::vector<std::string>& args) {
    return read_command_line(app_, args);
  }
  // What is wrong with it.
  std::string wrong(const std::vector<std::string>& args) {
    const auto usage = read(args);
    if (!usage) {
      return "nothing";
    }
    EXPECT_TRUE(usage->is_wrong);
    EXPECT_EQ(usage->exit_code(), 2);
    EXPECT_EQ(usage->text, usage->what + "\nRun with --help for more information.\n");
    return usage->what;
  }

  CLI::App app_{"Does things.", "trainyard things"};
  std::string home_;
  std::string folder_;
  int days_ = 7;
  bool as_json_ = false;
};

TEST_F(CommandLine, FillsWhatIsDescribedAndLeavesTheRest) {
  EXPECT_FALSE(read({"--home", "/a", "--json"}));
  EXPECT_EQ(home_, "/a");
  EXPECT_TRUE(as_json_);
  EXPECT_EQ(days_, 7);
  EXPECT_FALSE(read({"--home=/b", "import", "/data"}));
  EXPECT_EQ(home_, "/b");
  EXPECT_EQ(folder_, "/data");
}

TEST_F(CommandLine, SaysWhatIsWrong) {
  EXPECT_EQ(wrong({"--nope"}), "The following argument was not expected: --nope");
  EXPECT_EQ(wrong({"a", "b"}), "The following arguments were not expected: b a");
  EXPECT_EQ(wrong({"--home"}), "--home: 1 required TEXT missing");
  EXPECT_EQ(wrong({"--days", "10"}), "--days: Value 10 not in range 1 to 9");
  EXPECT_THAT(wrong({"--days", "many"}), StartsWith("--days: "));
  EXPECT_EQ(wrong({"import"}), "folder is required");
}

TEST_F(CommandLine, GivesTheHelpThatIsAskedFor) {
  const auto usage = read({"--help"});
  ASSERT_TRUE(usage);
  EXPECT_FALSE(usage->is_wrong);
  EXPECT_EQ(usage->exit_code(), 0);
  EXPECT_EQ(usage->what, "");
  EXPECT_THAT(usage->text, HasSubstr("Usage: trainyard things"));
  EXPECT_THAT(usage->text, HasSubstr("--days"));
  const auto of_import = read({"import", "--help"});
  ASSERT_TRUE(of_import);
  EXPECT_THAT(of_import->text, HasSubstr("Takes a folder"));
}

TEST_F(CommandLine, ShowsHelpAndMistakesWhereTheyBelong) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  EXPECT_EQ(show({.text = "help\n"}, "trainyard things"), 0);
  EXPECT_EQ(show({.is_wrong = true, .text = "bad\nadvice\n", .what = "bad"}), 2);
  EXPECT_EQ(show({.is_wrong = true, .text = "bad\nadvice\n", .what = "bad"}, "things"), 2);
  std::fflush(stdout);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "help\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "bad\nadvice\nthings: bad\n");
}

}  // namespace
}  // namespace trainyard
