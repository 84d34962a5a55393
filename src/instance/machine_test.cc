// SPDX-License-Identifier: Apache-2.0
#include "instance/machine.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::instance {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class CheckpointPlaceTest : public testing::Test {
 protected:
  Result<void> make(const std::string& inside) {
    places_.scratch = (directory_.path() / "scratch").string();
    return make_checkpoint_place({.bucket = "bucket",
                                  .prefix = "ckpt/",
                                  .inside = inside,
                                  .directory = directory_.path() / "scratch/checkpoints"},
                                 places_);
  }
  // Not in /tmp, which is the job's own.
  TempDir directory_ = *TempDir::make("trainyard-machine-", "/dev/shm");
  TempDir machine_ = *TempDir::make("trainyard-machine-", "/var/lib");
  ContainerPlaces places_;
};

TEST_F(CheckpointPlaceTest, IsBelowWhatIsTheJobsOwn) {
  for (const char* inside : {"/opt/ml/checkpoints", "/opt/ml/deep/er/ck", "/tmp/yard-none/ck"}) {
    const Result<void> made = make(inside);
    EXPECT_TRUE(made) << made.error().message;
    EXPECT_EQ(places_.checkpoints, inside);
    EXPECT_FALSE(fs::exists("/opt/ml/deep") || fs::exists("/tmp/yard-none"));
  }
}

TEST_F(CheckpointPlaceTest, IsMountedOverADirectoryOfTheMachine) {
  const std::string inside = machine_.path().string();
  EXPECT_TRUE(make(inside));
  EXPECT_EQ(places_.checkpoints, inside);
}

TEST_F(CheckpointPlaceTest, IsNeverMadeOnTheMachine) {
  const Path top = machine_.path() / "none";
  const Result<void> made = make((top / "deep/ck").string());
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::kInvalidArgument) << "which is a ClientError";
  EXPECT_THAT(made.error().message,
              AllOf(HasSubstr((top / "deep/ck").string()), HasSubstr("below /opt/ml")));
  EXPECT_FALSE(fs::exists(top));
}

class PlacesTest : public testing::Test {
 protected:
  ContainerPlaces places(const Variables& environment, bool without_root = false) {
    const auto made = make_places({}, scratch_.path(), environment, without_root);
    EXPECT_TRUE(made) << made.error().message;
    return made ? *made : ContainerPlaces();
  }
  TempDir scratch_ = *TempDir::make("trainyard-machine-", "/dev/shm");
};

TEST_F(PlacesTest, HideTheKeyThatTheServerWasGivenWhereverItLies) {
  const TempDir elsewhere = *TempDir::make("trainyard-machine-", "/var/lib");
  const Path key = elsewhere.path() / "key.pem";
  ASSERT_TRUE(write_file(key, "secret", 0600));
  const Path link = elsewhere.path() / "link.pem";
  fs::create_symlink("key.pem", link);
  for (const Path& named : {key, link}) {
    EXPECT_THAT(places({{"TRAINYARD_TLS_KEY", named.string()}}, /*without_root=*/true).secret_files,
                testing::Contains(key.string()));
  }
  EXPECT_THAT(places({}, true).secret_files, testing::Not(testing::Contains(key.string())));
}

TEST_F(PlacesTest, HideWhatMachinesKeepBesideTheirPasswords) {
  const ContainerPlaces found = places({}, true);
  EXPECT_THAT(found.secret_files, testing::Contains("/etc/shadow"));
  EXPECT_THAT(found.secret_directories, testing::Contains("/var/backups"));
}

// All of /srv or /data is too much.
TEST_F(PlacesTest, HideNoDirectoryOfTheTopForAHome) {
  for (const char* home : {"/var", "/var/", "/var//", "/var/."}) {
    EXPECT_EQ(places({{"HOME", home}}, true).user_home, "") << home;
  }
  EXPECT_EQ(places({{"HOME", "/var/lib/"}}, true).user_home, "/var/lib");
}

}  // namespace
}  // namespace trainyard::instance
