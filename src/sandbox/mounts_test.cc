// SPDX-License-Identifier: Apache-2.0
#include "sandbox/mounts.h"

#include <gmock/gmock.h>
#include <sys/mount.h>

#include "testing/private_host.h"

namespace trainyard::sandbox {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::string_view kMountinfo =
    "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
    "30 22 0:26 / /srv/run/job/1 rw - tmpfs tmpfs rw\n"
    "31 30 0:27 / /srv/run/job/1/opt\\040ml rw shared:1 - tmpfs tmpfs rw\n"
    "32 22 0:28 / /srv/run/job/12 rw - tmpfs tmpfs rw\n";

TEST(MountsBelow, ListsTheDirectoryAndWhatLiesInItOnly) {
  EXPECT_THAT(mounts_below(kMountinfo, "/srv/run/job/1"),
              ElementsAre("/srv/run/job/1", "/srv/run/job/1/opt ml"));
  EXPECT_THAT(mounts_below(kMountinfo, "/srv/run/job/2"), IsEmpty());
}

TEST(ParseMountinfo, TakesTheOptionsOfTheFileSystemAndLeavesBrokenLinesOut) {
  const auto mounts = parse_mountinfo(
      "31 30 0:27 /a\\134b /c\\040d rw shared:1 master:2 - cgroup2 none rw,nsdelegate\n"
      "22 1 254:0 / / rw,relatime - ext4\n22 - - - -\n\n");
  ASSERT_EQ(mounts.size(), 1U);
  EXPECT_EQ(mounts[0].root, "/a\\b");
  EXPECT_EQ(mounts[0].point, "/c d");
  EXPECT_EQ(mounts[0].type, "cgroup2");
  EXPECT_THAT(mounts[0].options, ElementsAre("rw", "nsdelegate"));
}

TEST(UnmountBelow, TakesNestedMountsAwaySoThatTheTreeCanGo) {
  YARD_PRIVATE_HOST_OR_SKIP();
  const auto directory = TempDir::make();
  ASSERT_TRUE(directory);
  const Path outer = directory->path() / "a b";
  ASSERT_TRUE(make_directories(outer));
  ASSERT_EQ(mount("tmpfs", outer.c_str(), "tmpfs", 0, nullptr), 0);
  ASSERT_TRUE(make_directories(outer / "inner"));
  ASSERT_EQ(mount("tmpfs", (outer / "inner").c_str(), "tmpfs", 0, nullptr), 0);

  ASSERT_TRUE(unmount_below(directory->path()));

  EXPECT_THAT(mounts_below(*read_file("/proc/thread-self/mountinfo"), directory->path()),
              IsEmpty());
  EXPECT_TRUE(remove_tree(outer));
}

}  // namespace
}  // namespace trainyard::sandbox
