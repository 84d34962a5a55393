// SPDX-License-Identifier: Apache-2.0
// Groups in trees of plain files, where what the kernel would refuse can be made to happen.
#include "engine/instance_groups.h"

#include <gmock/gmock.h>

namespace trainyard::engine {
namespace {

using sandbox::CgroupHierarchy;
using ::testing::HasSubstr;

struct InstanceGroupsTest : ::testing::Test {
  void SetUp() override {
    ASSERT_TRUE(tree_);
    ASSERT_TRUE(make_directories(own()));
    ASSERT_TRUE(make_directories(scratch()));
  }
  Path own() const { return tree_->path() / "own"; }
  Path scratch() const { return tree_->path() / "scratch"; }
  std::string list() const { return read_file(scratch() / "cgroups").value_or("no list"); }

  Result<TempDir> tree_ = TempDir::make();
};

TEST_F(InstanceGroupsTest, AreOnTheListWhenTheyExist) {
  InstanceGroups groups({}, {CgroupHierarchy{2, {}, own()}});
  ASSERT_TRUE(groups.make("t-1", scratch()));
  EXPECT_EQ(list(), (own() / "t-1").string() + "\n");
  EXPECT_TRUE(std::filesystem::is_directory(own() / "t-1"));
  ASSERT_TRUE(InstanceGroups::end(scratch(), std::chrono::seconds(1)));
  EXPECT_FALSE(std::filesystem::exists(own() / "t-1"));
  EXPECT_TRUE(InstanceGroups::end(scratch(), std::chrono::seconds(1)));
}

TEST_F(InstanceGroupsTest, AreMissedByNobodyWhereNoneCanBeMade) {
  InstanceGroups groups({.memory = 4096}, {CgroupHierarchy{1, {"memory"}, own() / "missing"}});
  ASSERT_TRUE(groups.make("t-1", scratch()));
  EXPECT_EQ(list(), "");
  EXPECT_TRUE(InstanceGroups::end(scratch(), std::chrono::seconds(1)));
}

TEST_F(InstanceGroupsTest, AreMadeWhereTheyCanBe) {
  InstanceGroups groups({.memory = 4096}, {CgroupHierarchy{1, {"memory"}, own() / "missing"},
                                           CgroupHierarchy{2, {}, own()}});
  ASSERT_TRUE(groups.make("t-1", scratch()));
  EXPECT_EQ(list(), (own() / "t-1").string() + "\n");
  EXPECT_TRUE(InstanceGroups::end(scratch(), std::chrono::seconds(1)));
}

TEST_F(InstanceGroupsTest, KillWithoutLimitsWhereTheOwnGroupCannotBeDivided) {
  // No subtree_control to write to: as in a group that was not delegated to us.
  InstanceGroups groups({.memory = 4096}, {CgroupHierarchy{2, {"memory"}, own()}});
  ASSERT_TRUE(groups.make("t-1", scratch()));
  EXPECT_THAT(list(), HasSubstr("own/t-1"));
  EXPECT_TRUE(InstanceGroups::end(scratch(), std::chrono::seconds(1)));
}

}  // namespace
}  // namespace trainyard::engine
