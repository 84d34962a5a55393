// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/fabric/regions.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/subprocess.h"

namespace trainyard::comm {
namespace {

TEST(RegionName, OfARunningProcessIsNotStale) {
  const std::string name = new_region_name().value();
  EXPECT_FALSE(is_stale_region(name));
  EXPECT_NE(name, new_region_name().value());
}

// The same as an own name, but for one of its parts.
std::string with_part(std::size_t index, const std::string& part) {
  std::string name = new_region_name().value();
  std::size_t begin = std::string("trainyard-fabric-").size();
  for (std::size_t i = 0; i < index; ++i) {
    begin = name.find('-', begin) + 1;
  }
  return name.replace(begin, name.find('-', begin) - begin, part);
}

TEST(RegionName, OfAnEndedProcessIsStale) {
  Result<Child> child = spawn({.argv = {"true"}, .inherit_env = true});
  ASSERT_TRUE(child);
  const std::string pid = std::to_string(child->pid());
  ASSERT_TRUE(child->wait());
  EXPECT_TRUE(is_stale_region(with_part(1, pid)));
}

TEST(RegionName, OfAnotherProcessWithThePidIsStale) {
  EXPECT_TRUE(is_stale_region(with_part(2, "1")));
}

TEST(RegionName, OfAnotherNamespaceIsNotOursToJudge) {
  EXPECT_FALSE(is_stale_region(with_part(0, "1")));
}

TEST(RegionName, OfSomebodyElseIsLeftAlone) {
  for (const char* name : {"", "trainyard-fabric-", "trainyard-fabric-1-2", "psm2_shm.1", "x"}) {
    EXPECT_FALSE(is_stale_region(name)) << name;
  }
}

TEST(Regions, OnlyStaleOnesAreRemoved) {
  const TempDir folder = TempDir::make().value();
  const std::string own = new_region_name().value();
  const std::string stale = with_part(2, "1");
  for (const std::string& name : {own, stale, std::string("other")}) {
    std::ofstream(folder.path() / name) << name;
  }
  remove_stale_regions(folder.path());
  EXPECT_TRUE(std::filesystem::exists(folder.path() / own));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "other"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / stale));
  remove_region(own, folder.path());
  EXPECT_FALSE(std::filesystem::exists(folder.path() / own));
}

}  // namespace
}  // namespace trainyard::comm
