// SPDX-License-Identifier: Apache-2.0
#include "instance/run/rank_places.h"

#include <filesystem>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>

namespace trainyard::instance {
namespace {

namespace fs = std::filesystem;

unsigned mode_of(const Path& path) {
  struct stat status {};
  EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

class MeetingPlaceTest : public ::testing::Test {
 protected:
  TempDir directory_ = *TempDir::make("trainyard-places-");
  Path folder_ = directory_.path() / "meeting";
};

TEST_F(MeetingPlaceTest, IsTheSameForAllInstancesOfAnAttempt) {
  const auto first = make_meeting_place(folder_, 1);
  ASSERT_TRUE(first) << first.error().message;
  ASSERT_TRUE(write_file(*first / "comm-1", ""));
  const auto second = make_meeting_place(folder_, 1);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(*first, *second);
  EXPECT_TRUE(fs::exists(*second / "comm-1"));
}

TEST_F(MeetingPlaceTest, IsClosedToOtherUsersOfTheMachine) {
  const auto place = make_meeting_place(folder_, 1);
  ASSERT_TRUE(place);
  EXPECT_EQ(mode_of(folder_), 0700U);
  EXPECT_EQ(mode_of(*place), 01777U) << "a job's own users may differ";
}

TEST_F(MeetingPlaceTest, HoldsNothingOfAttemptsBefore) {
  const auto first = make_meeting_place(folder_, 1);
  ASSERT_TRUE(first);
  ASSERT_TRUE(write_file(*first / "comm-1", ""));
  const auto second = make_meeting_place(folder_, 2);
  ASSERT_TRUE(second);
  EXPECT_TRUE(fs::is_empty(*second));
  EXPECT_FALSE(fs::exists(*first));
}

TEST_F(MeetingPlaceTest, LeavesALaterAttemptAlone) {
  ASSERT_TRUE(make_meeting_place(folder_, 3));
  ASSERT_TRUE(make_meeting_place(folder_, 2));
  EXPECT_TRUE(fs::exists(folder_ / "3"));
}

TEST_F(MeetingPlaceTest, IsMadeByAllInstancesAtOnce) {
  for (int epoch = 1; epoch <= 20; ++epoch) {
    std::vector<std::jthread> instances;
    for (int i = 0; i < 4; ++i) {
      instances.emplace_back([this, epoch, i] {
        const auto place = make_meeting_place(folder_, epoch);
        ASSERT_TRUE(place) << place.error().message;
        EXPECT_TRUE(write_file(*place / std::to_string(i), ""));
      });
    }
  }
  EXPECT_FALSE(fs::exists(folder_ / "19"));
  EXPECT_TRUE(fs::exists(folder_ / "20/3"));
}

TEST(RankPlaces, AreToldToTheLibraryWhereTheContainerSeesThem) {
  ContainerPlaces places;
  EXPECT_TRUE(rank_place_variables(places).empty());
  places.scratch = "/scratch";
  places.meeting = "/gang/meeting/1";
  places.status = "/scratch/status";
  const Variables variables = rank_place_variables(places);
  EXPECT_EQ(variables.at("TRAINYARD_COMM_SOCKETS"), kMeetingPlace);
  EXPECT_EQ(variables.at("TRAINYARD_COMM_STATUS"), kStatusPlace);
  int found = 0;
  for (const sandbox::ContainerMount& mount : container_mounts(places)) {
    found += mount.target == kMeetingPlace && mount.source == "/gang/meeting/1" ? 1 : 0;
    found += mount.target == kStatusPlace && mount.source == "/scratch/status" ? 1 : 0;
  }
  EXPECT_EQ(found, 2);
}

}  // namespace
}  // namespace trainyard::instance
