// SPDX-License-Identifier: Apache-2.0
#include "instance/run/writable_layer.h"

#include <filesystem>
#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "instance/run/private_mounts.h"

namespace trainyard::instance {
namespace {

namespace fs = std::filesystem;

// A mount namespace belongs to a thread, and ends with it.
class WritableLayerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) {
      GTEST_SKIP() << "needs root";
    }
    ASSERT_TRUE(make_directories(shared() / "package/data"));
    ASSERT_TRUE(write_file(shared() / "package/module.py", "old"));
  }
  void in_a_job(const std::function<void()>& program) const {
    std::thread job([&] {
      const Result<void> entered = enter_private_mounts();
      ASSERT_TRUE(entered) << entered.error().message;
      const TempDir scratch = *TempDir::make("trainyard-layer-", "/dev/shm");
      const Result<void> made = mount_layer({.directory = shared(), .scratch = scratch.path()});
      ASSERT_TRUE(made) << made.error().message;
      program();
    });
    job.join();
  }
  Path shared() const { return directory_.path() / "an, other:environment\\"; }

  TempDir directory_ = *TempDir::make("trainyard-layer-");
};

TEST_F(WritableLayerTest, KeepsWhatAJobWritesFromTheNextAndFromTheMachine) {
  in_a_job([this] {
    fs::remove_all(shared() / "package");
    ASSERT_TRUE(make_directories(shared() / "package"));
    ASSERT_TRUE(write_file(shared() / "package/new.py", "new"));
    EXPECT_FALSE(fs::exists(shared() / "package/module.py"));
  });
  in_a_job([this] {
    EXPECT_EQ(read_file(shared() / "package/module.py").value_or(""), "old");
    EXPECT_FALSE(fs::exists(shared() / "package/new.py"));
  });
  EXPECT_EQ(read_file(shared() / "package/module.py").value_or(""), "old");
  EXPECT_FALSE(fs::exists(shared() / "package/new.py"));
}

TEST(CopyDirectories, TakesNeitherFilesNorLinks) {
  const TempDir directory = *TempDir::make("trainyard-layer-");
  const Path tree = directory.path() / "tree";
  const Path copy = directory.path() / "copy";
  ASSERT_TRUE(make_directories(tree / "lib/deep"));
  ASSERT_TRUE(make_directories(copy));
  ASSERT_TRUE(write_file(tree / "lib/file", "text"));
  fs::create_directory_symlink("lib", tree / "lib64");
  const Result<void> copied = copy_directories(tree, copy);
  ASSERT_TRUE(copied) << copied.error().message;
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(copy)) {
    found.push_back(entry.path().lexically_relative(copy));
  }
  EXPECT_THAT(found, testing::UnorderedElementsAre("lib", "lib/deep"));
}

}  // namespace
}  // namespace trainyard::instance
