// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"

namespace trainyard {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class RemoveTree : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(make_directories(tree_ / "a/b").has_value());
    ASSERT_TRUE(write_file(tree_ / "a/b/file", "x").has_value());
  }

  TempDir dir_ = *TempDir::make();
  Path tree_ = dir_.path() / "tree";
};

// Runs `body` where mounts are seen by its thread only and vanish with it. False without the right.
bool in_own_mount_namespace(const std::function<void()>& body) {
  bool entered = false;
  std::thread([&] {
    entered = unshare(CLONE_NEWNS) == 0 &&
              mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    if (entered) {
      body();
    }
  }).join();
  return entered;
}

// Runs `body` on a thread that permissions bind, as they do not bind root. `directory` is its own.
void as_ordinary_user(const Path& directory, const std::function<void()>& body) {
  constexpr uid_t kNobody = 65534;
  if (geteuid() != 0) {
    return body();
  }
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    ASSERT_EQ(lchown(entry.path().c_str(), kNobody, kNobody), 0);
  }
  ASSERT_EQ(chown(directory.c_str(), kNobody, kNobody), 0);
  std::thread([&] {
    // Of this thread alone, unlike the C library's function.
    ASSERT_EQ(syscall(SYS_setresuid, kNobody, kNobody, kNobody), 0);
    body();
  }).join();
}

TEST_F(RemoveTree, RemovesFilesDirectoriesAndLinks) {
  fs::create_symlink("nowhere", tree_ / "a/dangling");
  ASSERT_TRUE(remove_tree(tree_).has_value());
  EXPECT_FALSE(fs::exists(tree_));
}

TEST_F(RemoveTree, TakesAMissingTreeForSuccess) {
  EXPECT_TRUE(remove_tree(tree_ / "no").has_value());
  EXPECT_TRUE(remove_tree(tree_ / "no/such/parent").has_value());
}

TEST_F(RemoveTree, AcceptsATrailingSlashAndAFile) {
  EXPECT_TRUE(remove_tree(tree_ / "a/b/file").has_value());
  EXPECT_TRUE(remove_tree(tree_.string() + "/").has_value());
  EXPECT_FALSE(fs::exists(tree_));
}

TEST_F(RemoveTree, RefusesWhatIsNotAName) {
  for (const char* path : {"", ".", "..", "/", "/tmp/.."}) {
    EXPECT_EQ(remove_tree(path).error().code, Code::kInvalidArgument) << path;
  }
}

TEST_F(RemoveTree, DoesNotFollowLinks) {
  const Path outside = dir_.path() / "outside";
  ASSERT_TRUE(make_directories(outside).has_value());
  ASSERT_TRUE(write_file(outside / "kept", "x").has_value());
  fs::create_directory_symlink(outside, tree_ / "link");
  fs::create_directory_symlink(outside, dir_.path() / "top");
  ASSERT_TRUE(remove_tree(tree_).has_value());
  ASSERT_TRUE(remove_tree(dir_.path() / "top").has_value());
  EXPECT_TRUE(fs::exists(outside / "kept"));
}

TEST_F(RemoveTree, RemovesDirectoriesWithoutPermissions) {
  chmod((tree_ / "a/b").c_str(), 0000);
  chmod((tree_ / "a").c_str(), 0500);
  EXPECT_TRUE(remove_tree(tree_).has_value());
  EXPECT_FALSE(fs::exists(tree_));
}

class RemoveTreeWithMode : public RemoveTree, public testing::WithParamInterface<mode_t> {};

TEST_P(RemoveTreeWithMode, MakesItsOwnDirectoriesAccessible) {
  as_ordinary_user(dir_.path(), [&] {
    chmod((tree_ / "a/b").c_str(), GetParam());
    chmod((tree_ / "a").c_str(), GetParam());
    chmod(tree_.c_str(), GetParam());
    const auto removed = remove_tree(tree_);
    EXPECT_TRUE(removed.has_value()) << removed.error().message;
  });
  EXPECT_FALSE(fs::exists(tree_));
}

TEST_P(RemoveTreeWithMode, MovesDirectoriesOutOfTheDepth) {
  Path deepest = tree_;
  for (int depth = 0; depth < 70; ++depth) {
    deepest /= "d";
  }
  ASSERT_TRUE(make_directories(deepest).has_value());
  as_ordinary_user(dir_.path(), [&] {
    for (Path path = deepest; path != dir_.path(); path = path.parent_path()) {
      chmod(path.c_str(), GetParam());
    }
    const auto removed = remove_tree(tree_);
    EXPECT_TRUE(removed.has_value()) << removed.error().message;
  });
  EXPECT_FALSE(fs::exists(tree_));
}

// As `chmod -R` by a job leaves them.
INSTANTIATE_TEST_SUITE_P(Modes, RemoveTreeWithMode,
                         testing::Values(0000, 0100, 0200, 0300, 0400, 0500, 0600, 0644, 0700));

// Deeper than there are descriptors, and than a path may be long.
TEST_F(RemoveTree, RemovesATreeOfAnyDepth) {
  std::thread([&] {
    ASSERT_EQ(unshare(CLONE_FS), 0);
    ASSERT_EQ(chdir(tree_.c_str()), 0);
    for (int depth = 0; depth < 3000; ++depth) {
      ASSERT_EQ(mkdir("deep", 0700), 0);
      ASSERT_EQ(chdir("deep"), 0);
    }
  }).join();
  EXPECT_TRUE(remove_tree(tree_).has_value());
  EXPECT_FALSE(fs::exists(tree_));
}

TEST_F(RemoveTree, ReportsAMountInsideAndDoesNotEmptyIt) {
  const Path inside = tree_ / "a/b";
  const bool entered = in_own_mount_namespace([&] {
    ASSERT_EQ(mount("none", inside.c_str(), "tmpfs", 0, nullptr), 0);
    ASSERT_TRUE(write_file(inside / "precious", "x").has_value());
    const auto removed = remove_tree(tree_);
    ASSERT_FALSE(removed.has_value());
    EXPECT_EQ(removed.error().code, Code::kConflict);
    EXPECT_THAT(removed.error().message, HasSubstr(inside.string()));
    EXPECT_EQ(remove_tree(inside).error().code, Code::kConflict);
    EXPECT_TRUE(fs::exists(inside / "precious"));
    EXPECT_EQ(umount(inside.c_str()), 0);
    EXPECT_TRUE(remove_tree(tree_).has_value());
  });
  if (!entered) {
    GTEST_SKIP() << "needs the right to make a mount namespace (root)";
  }
}

// The same file system on both sides: the device number does not tell.
TEST_F(RemoveTree, ReportsABindMountInside) {
  const Path data = dir_.path() / "data";
  ASSERT_TRUE(make_directories(data).has_value());
  ASSERT_TRUE(write_file(data / "precious", "x").has_value());
  const bool entered = in_own_mount_namespace([&] {
    const Path inside = tree_ / "a";
    ASSERT_EQ(mount(data.c_str(), inside.c_str(), nullptr, MS_BIND, nullptr), 0);
    EXPECT_EQ(remove_tree(tree_).error().code, Code::kConflict);
    EXPECT_TRUE(fs::exists(data / "precious"));
    EXPECT_EQ(umount(inside.c_str()), 0);
  });
  if (!entered) {
    GTEST_SKIP() << "needs the right to make a mount namespace (root)";
  }
}

}  // namespace
}  // namespace trainyard
