// SPDX-License-Identifier: Apache-2.0
#include "instance/transfer/checkpoint_restore.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "instance/testing/checkpoint_fixture.h"

namespace trainyard::instance {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;
using testing::Pair;
using testing::SizeIs;
using testing::UnorderedElementsAre;

std::vector<s3::ObjectInfo> objects(const std::vector<std::string>& keys, std::uint64_t size = 1) {
  std::vector<s3::ObjectInfo> all;
  all.reserve(keys.size());
  for (const std::string& key : keys) {
    all.push_back({.key = key, .size = size, .etag = "e"});
  }
  return all;
}

TEST(RestorePlanTest, RefusesKeysThatWouldLeaveTheDirectoryByName) {
  const std::string nul("t/n\0l", 5);
  const RestorePlan plan =
      plan_restore("t/", objects({"t/ok", "t/../up", "t/a/../../b", "t//abs", "t/./x", nul,
                                  "t/" + std::string(256, 'x')}));
  EXPECT_THAT(plan.files, ElementsAre(Key("ok")));
  EXPECT_THAT(plan.refused, SizeIs(6));
  EXPECT_THAT(plan.refused, testing::Contains(HasSubstr("'t/../up'")));
}

TEST(RestorePlanTest, LetsTheFolderWinOverAnObjectOfItsName) {
  const RestorePlan plan = plan_restore("t/", objects({"t/x", "t/x/y"}));
  EXPECT_THAT(plan.files, ElementsAre(Key("x/y")));
  EXPECT_THAT(plan.refused, ElementsAre(HasSubstr("'t/x'")));
}

TEST(RestorePlanTest, MakesFoldersOfMarkers) {
  const RestorePlan plan = plan_restore("t/", objects({"t/", "t/empty/", "t/a/b/c"}, 0));
  EXPECT_THAT(plan.directories, ElementsAre("a", "a/b", "empty"));
  EXPECT_THAT(plan.files, ElementsAre(Key("a/b/c")));
  EXPECT_THAT(plan.refused, IsEmpty());
}

class RestoreTest : public CheckpointFixture {};

TEST_F(RestoreTest, TakesTheDirectoryAndNotItsNeighbours) {
  put("train/a", "1");
  put("train/deep/er/b", "2");
  put("train2/a", "3");
  put("train", "4");
  for (const char* uri : {"s3://bucket/train", "s3://bucket/train/"}) {
    const auto place = checkpoint_place({{"CheckpointConfig", {{"S3Uri", uri}}}}, scratch());
    ASSERT_TRUE(place && place->has_value());
    place_ = place->value_or(CheckpointPlace());
    ASSERT_TRUE(remove_tree(place_.directory));
    restore();
    EXPECT_THAT(tree(), UnorderedElementsAre(Pair("a", "1"), Pair("deep/er/b", "2"))) << uri;
  }
}

TEST_F(RestoreTest, BeginsWithAnEmptyDirectoryWhenThereIsNothing) {
  restore();
  EXPECT_TRUE(fs::is_directory(place_.directory));
  EXPECT_THAT(tree(), IsEmpty());
}

TEST_F(RestoreTest, NamesTheBucketThatIsNotThere) {
  place_.bucket = "missing";
  const auto restored = restore_checkpoints(place_, *store_, sinks(), {});
  ASSERT_FALSE(restored);
  EXPECT_EQ(restored.error().code, Code::kNotFound);
}

TEST_F(RestoreTest, KeepsOddNamesExactly) {
  const std::vector<std::string> names = {"h+i",
                                          "foo++bar.txt",
                                          "a&b=c;d,e@f$g:h?",
                                          "a b",
                                          "*?[x]",
                                          "\u3000",
                                          "\x7f",
                                          "new\nline",
                                          "first.last/x",
                                          "e\u0301",
                                          "\u00e9",
                                          "\U0001F600",
                                          "Case",
                                          "case",
                                          "%41",
                                          "back\\slash",
                                          std::string(255, 'x')};
  for (const std::string& name : names) {
    put("ckpt/" + name, name);
  }
  restore();
  const auto found = tree();
  EXPECT_THAT(found, SizeIs(names.size()));
  for (const std::string& name : names) {
    EXPECT_EQ(found.at(name), name);
  }
}

TEST_F(RestoreTest, MakesTheDirectoryEqualAndFetchesOnlyWhatDiffers) {
  put("ckpt/same", "1");
  put("ckpt/changed-here", "2");
  put("ckpt/changed-there", "3");
  StoredFiles stored = restore();
  ASSERT_TRUE(save_stored(place_, stored));
  const FileState before = stored.at("same").state;
  write("changed-here", "xx");
  write("extra/file", "x");
  put("ckpt/changed-there", "33");
  stored = restore();
  EXPECT_THAT(tree(), UnorderedElementsAre(Pair("same", "1"), Pair("changed-here", "2"),
                                           Pair("changed-there", "33")));
  EXPECT_FALSE(fs::exists(place_.directory / "extra"));
  EXPECT_EQ(stored.at("same").state.inode, before.inode) << "it was fetched again";
}

TEST_F(RestoreTest, RemovesLinksOfAnAttemptBeforeAndFollowsNone) {
  const Path outside = scratch() / "outside";
  ASSERT_TRUE(make_directories(outside));
  ASSERT_TRUE(make_directories(place_.directory));
  fs::create_directory_symlink(outside, place_.directory / "sub");
  ASSERT_TRUE(write_file(outside / "victim", "safe"));
  fs::create_symlink(outside / "victim", place_.directory / "a");
  put("ckpt/sub/x", "1");
  put("ckpt/a", "2");
  restore();
  EXPECT_THAT(tree(), UnorderedElementsAre(Pair("sub/x", "1"), Pair("a", "2")));
  EXPECT_EQ(read_file(outside / "victim").value_or(""), "safe");
  EXPECT_FALSE(fs::exists(outside / "x"));
}

TEST_F(RestoreTest, GivesFilesTheTimesOfTheirObjects) {
  put("ckpt/a", "1");
  restore();
  struct stat info = {};
  ASSERT_EQ(stat((place_.directory / "a").c_str(), &info), 0);
  const WallTime modified = store_->head("bucket", "ckpt/a")->last_modified;
  EXPECT_EQ(info.st_mtim.tv_sec,
            std::chrono::floor<std::chrono::seconds>(modified).time_since_epoch().count());
}

TEST_F(RestoreTest, SaysWhatItDoes) {
  put("ckpt/a", "1");
  put("ckpt/../b", "2");
  restore();
  EXPECT_THAT(messages(), ElementsAre(HasSubstr("Restoring checkpoints: 1 file, 1 B")));
  EXPECT_THAT(notes(), ElementsAre(HasSubstr("'ckpt/../b'")));
}

TEST_F(RestoreTest, SkipsAnObjectThatIsRemovedWhileItRestores) {
  put("ckpt/a", "1");
  put("ckpt/b", "2");
  // After the list: messages come between it and the first download.
  ProgressSinks with_removal = sinks();
  with_removal.message = [this](const std::string&) {
    EXPECT_TRUE(store_->remove("bucket", "ckpt/a"));
  };
  const auto restored = restore_checkpoints(place_, *store_, with_removal, {});
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_THAT(*restored, ElementsAre(Key("b")));
  EXPECT_THAT(tree(), ElementsAre(Pair("b", "2")));
  EXPECT_THAT(notes(), ElementsAre(HasSubstr("'ckpt/a' was removed")));
}

TEST_F(RestoreTest, LeavesNoTornFileWhenItIsStopped) {
  put("ckpt/a", std::string(std::size_t{3} << 20, 'x'));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(restore_checkpoints(place_, *store_, sinks(), stop.get_token()));
  EXPECT_THAT(tree(), IsEmpty());
}

}  // namespace
}  // namespace trainyard::instance
