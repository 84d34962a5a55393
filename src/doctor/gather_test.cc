// SPDX-License-Identifier: Apache-2.0
// What is found on the machine of the test, so far as it must be so on every machine.
#include "doctor/gather.h"

#include <algorithm>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::doctor {
namespace {

using ::testing::HasSubstr;

TEST(ChosenOf, IsWhatStandsInBrackets) {
  EXPECT_EQ(chosen_of("always [madvise] never"), "madvise");
  EXPECT_EQ(chosen_of(""), "");
  EXPECT_EQ(chosen_of("] ["), "");
}

TEST(ModulesOf, AreTheFirstWordsOfTheLines) {
  EXPECT_EQ(modules_of("efa 1 0 - Live 0x0\nib_core 2 1 efa, Live 0x0\n"),
            (std::vector<std::string>{"efa", "ib_core"}));
}

TEST(Gather, SeesThisMachineAndLeavesNothing) {
  const TempDir folder = TempDir::make().value();
  const Facts facts = gather({.instance_type = "", .home = folder.path(), .program = "/bin/true"});
  EXPECT_TRUE(std::ranges::any_of(facts.network.interfaces,
                                  [](const auto& one) { return one.is_loopback; }));
  EXPECT_GT(facts.memory.open_files.soft, 0U);
  EXPECT_TRUE(facts.home.error.empty()) << facts.home.error;
  EXPECT_GT(facts.home.free_bytes, 0U);
  EXPECT_FALSE(facts.home.file_system.empty());
  EXPECT_TRUE(facts.sandbox.user_namespaces.empty());  // /bin/true is the probe
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Gather, LooksAtTheDiskThatAHomeWillBeOn) {
  const TempDir folder = TempDir::make().value();
  const Facts facts =
      gather({.instance_type = "", .home = folder.path() / "not/yet", .program = "/bin/false"});
  EXPECT_TRUE(facts.home.error.empty()) << facts.home.error;
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "not"));
}

TEST(Gather, SaysThatAProbeFailed) {
  const TempDir folder = TempDir::make().value();
  const Facts facts =
      gather({.instance_type = "", .home = folder.path(), .program = "/no/such/program"});
  EXPECT_THAT(facts.sandbox.user_namespaces, HasSubstr("could not be tried"));
}

}  // namespace
}  // namespace trainyard::doctor
