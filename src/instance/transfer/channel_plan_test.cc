// SPDX-License-Identifier: Apache-2.0
#include "instance/transfer/channel_plan.h"

#include <set>

#include <gtest/gtest.h>

namespace trainyard::instance {
namespace {

using Paths = std::vector<std::string>;

Result<ChannelPlan> plan(std::string_view prefix, const Paths& keys, Shard shard = {}) {
  std::vector<ChannelObject> objects;
  for (const std::string& key : keys) {
    objects.push_back({key, key.ends_with('/') ? 0u : 3u});
  }
  return plan_channel("training", prefix, objects, shard);
}

Paths paths_of(const Result<ChannelPlan>& plan) {
  Paths paths;
  for (const PlannedFile& file : plan ? plan->files : std::vector<PlannedFile>{}) {
    paths.push_back(file.path);
  }
  return paths;
}

struct Case {
  std::string name;
  std::string prefix;
  Paths keys;
  Paths paths;
};

class ChannelPaths : public testing::TestWithParam<Case> {};

TEST_P(ChannelPaths, KeepTheKeyBelowThePrefix) {
  const Result<ChannelPlan> result = plan(GetParam().prefix, GetParam().keys);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(paths_of(result), GetParam().paths);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, ChannelPaths,
    testing::Values(
        Case{"Folder", "data/train", {"data/train/a", "data/train/b/c"}, {"a", "b/c"}},
        Case{"FolderWithSlash", "data/train/", {"data/train/a"}, {"a"}},
        Case{"WholeBucket", "", {"a", "b/c"}, {"a", "b/c"}},
        Case{"EndsInsideAName", "data/train", {"data/train-a.csv"}, {"train-a.csv"}},
        Case{"SingleObject", "data/one.csv", {"data/one.csv", "data/one.csv.bak"}, {"one.csv"}},
        Case{"PrefixWithDots", "first.last/", {"first.last/x"}, {"x"}},
        Case{"HardNames",
             "p/",
             {"p/foo++bar.txt", "p/a&b=c;d", "p/[x]*?", "p/é\n\u3000"},
             {"foo++bar.txt", "a&b=c;d", "[x]*?", "é\n\u3000"}},
        Case{"CaseMatters", "p/", {"p/A", "p/a"}, {"A", "a"}},
        Case{"FolderMarkers", "p/", {"p/", "p/a/", "p/a/b"}, {"a/b"}}),
    [](const auto& test) { return test.param.name; });

TEST(ChannelPlan, TakesNeighbourFoldersAndWarnsOnce) {
  const Result<ChannelPlan> result = plan("train", {"train/a", "train2/a"});
  EXPECT_EQ(paths_of(result), (Paths{"a", "train2/a"}));
  ASSERT_EQ(result->warnings.size(), 1u);
  EXPECT_NE(result->warnings[0].find("train/, train2/"), std::string::npos);
}

TEST(ChannelPlan, LetsADirectoryWinOverAnObjectAndReportsIt) {
  const Result<ChannelPlan> result = plan("p/", {"p/x", "p/x/y"});
  EXPECT_EQ(paths_of(result), (Paths{"x/y"}));
  ASSERT_EQ(result->warnings.size(), 1u);
  EXPECT_NE(result->warnings[0].find("'p/x'"), std::string::npos);
}

TEST(ChannelPlan, LetsTheFolderWinOverAnObjectNamedAsThePrefix) {
  EXPECT_EQ(paths_of(plan("p/x", {"p/x", "p/x/y"})), (Paths{"y"}));
}

TEST(ChannelPlan, MakesEmptyFolders) {
  const Result<ChannelPlan> result = plan("p/", {"p/", "p/empty/"});
  EXPECT_TRUE(result->files.empty());
  EXPECT_EQ(result->directories, (Paths{"empty"}));
}

class ChannelRefusal : public testing::TestWithParam<std::string> {};

TEST_P(ChannelRefusal, NamesTheKey) {
  const Result<ChannelPlan> result = plan("p/", {"p/good", "p/" + GetParam()});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kInvalidArgument);
  EXPECT_NE(result.error().message.find(GetParam().substr(0, 20)), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Keys, ChannelRefusal,
                         testing::Values("../x", "a/../../x", "..", "a//b", "./x",
                                         std::string(256, 'n'), "a/" + std::string(256, 'n')));

TEST(ChannelPlan, RefusesTwoObjectsForOneFile) {
  const Result<ChannelPlan> result = plan("train", {"train/train2/a", "train2/a"});
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("same file"), std::string::npos);
}

TEST(ShardOf, IsDisjointAndComplete) {
  Paths keys;
  for (int i = 0; i < 23; ++i) {
    keys.push_back("k/" + std::to_string(100 + i));
  }
  std::multiset<std::string> seen;
  for (int index = 0; index < 4; ++index) {
    const Paths own = paths_of(plan("k/", keys, {.hosts = 4, .index = index}));
    EXPECT_GE(own.size(), 5u);
    EXPECT_LE(own.size(), 6u);
    seen.insert(own.begin(), own.end());
  }
  EXPECT_EQ(seen.size(), keys.size());
  EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()).size(), keys.size());
}

TEST(ShardOf, LeavesHostsWithoutObjectsWhenThereAreFew) {
  EXPECT_TRUE(paths_of(plan("k/", {"k/a"}, {.hosts = 2, .index = 1})).empty());
}

}  // namespace
}  // namespace trainyard::instance
