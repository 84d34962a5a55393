// SPDX-License-Identifier: Apache-2.0
#include "s3/adopt/folder_walk.h"

#include <algorithm>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

namespace trainyard::s3 {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

struct Walk : testing::Test {
  void write(const std::string& name) const {
    ASSERT_TRUE(make_directories((folder.path() / name).parent_path()));
    ASSERT_TRUE(write_file(folder.path() / name, "x"));
  }
  std::vector<std::string> run(const FolderWalk::Exclude& exclude = [](int) {
    return std::string_view();
  }) {
    const auto fd = open_file(folder.path(), O_RDONLY | O_DIRECTORY);
    FolderWalk walk(fd->get(), exclude, [this](const std::string& name, std::string_view why) {
      refused.push_back(name + ": " + std::string(why));
    });
    std::vector<std::string> names;
    while (true) {
      const auto entry = walk.next();
      EXPECT_TRUE(entry) << entry.error().message;
      if (!entry || !*entry) {
        return names;
      }
      names.push_back((*entry)->name + ((*entry)->kind == FolderWalk::Kind::kLink ? " ->" : ""));
    }
  }

  TempDir folder = *TempDir::make();
  std::vector<std::string> refused;
};

TEST_F(Walk, GivesFilesInTheOrderOfKeys) {
  for (const char* name : {"a/b", "a-b", "a.c", "a/b-", "a0", "b/a/a", "b/a-", "\xC3\xA9", "B"}) {
    write(name);
  }
  auto names = run();
  EXPECT_THAT(names,
              ElementsAre("B", "a-b", "a.c", "a/b", "a/b-", "a0", "b/a-", "b/a/a", "\xC3\xA9"));
  EXPECT_TRUE(std::ranges::is_sorted(names));
}

TEST_F(Walk, OfAnEmptyFolderGivesNothing) {
  ASSERT_TRUE(make_directories(folder.path() / "empty/too"));
  EXPECT_THAT(run(), ElementsAre());
}

TEST_F(Walk, FollowsNoLinkAndNamesWhatIsSpecial) {
  write("sub/f");
  ASSERT_EQ(::symlink("sub", (folder.path() / "folder").c_str()), 0);
  ASSERT_EQ(::mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(run(), ElementsAre("folder ->", "sub/f"));
  EXPECT_THAT(refused, ElementsAre("pipe: a special file"));
}

TEST_F(Walk, LeavesOutWhatItIsToldAndWhatIsTrainyards) {
  write("home/trainyard.db");
  write("in/store/index.db");
  write("in/store/data/x");
  write("in/store/credentials");
  write("private/x");
  struct stat status {};
  ASSERT_EQ(::stat((folder.path() / "private").c_str(), &status), 0);
  const auto names = run([&status](int fd) -> std::string_view {
    struct stat found {};
    return ::fstat(fd, &found) == 0 && found.st_ino == status.st_ino ? "not wanted" : "";
  });
  EXPECT_THAT(names, ElementsAre());
  EXPECT_THAT(refused,
              UnorderedElementsAre("home/: a Trainyard home", "in/store/: a Trainyard store",
                                   "private/: not wanted"));
}

TEST_F(Walk, KnowsTrainyardsFoldersByLinksToTheirParts) {
  const auto link = [this](const char* name) {
    ASSERT_TRUE(make_directories((folder.path() / name).parent_path()));
    ASSERT_EQ(::symlink("/elsewhere", (folder.path() / name).c_str()), 0);
  };
  link("home/trainyard.db");
  write("lost/credentials");
  link("lost/objects");
  write("store/index.db");
  link("store/data");
  link("store/incoming");
  EXPECT_THAT(run(), ElementsAre());
  EXPECT_THAT(refused, UnorderedElementsAre("home/: a Trainyard home", "lost/: a Trainyard home",
                                            "store/: a Trainyard store"));
}

TEST_F(Walk, ReadsAsManyNamesAsThereAre) {
  for (int i = 0; i < 3'000; ++i) {
    write("f" + std::to_string(i));
  }
  const auto names = run();
  EXPECT_EQ(names.size(), 3'000u);
  EXPECT_TRUE(std::ranges::is_sorted(names));
}

}  // namespace
}  // namespace trainyard::s3
