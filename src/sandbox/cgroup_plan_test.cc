// SPDX-License-Identifier: Apache-2.0
#include "sandbox/cgroup_plan.h"

#include <gmock/gmock.h>

namespace trainyard::sandbox {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr std::string_view kHybridMounts =
    "29 22 0:25 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "30 29 0:26 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
    "31 29 0:27 / /sys/fs/cgroup/memory rw,relatime shared:5 - cgroup cgroup rw,memory\n"
    "32 29 0:28 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
constexpr std::string_view kHybridGroups = "4:memory:/box/7\n1:cpu:/\n0::/\n";

const CgroupLimits kLimits{.memory = 1'048'576, .processes = 100, .cpus = 1.5};

std::vector<std::string> texts(const std::vector<CgroupWrite>& writes) {
  std::vector<std::string> texts;
  for (const CgroupWrite& write : writes) {
    texts.push_back(write.file.string() + "=" + write.value);
  }
  return texts;
}

TEST(CgroupPlan, FindsTheOwnGroupsOfBothVersions) {
  EXPECT_THAT(
      parse_hierarchies(kHybridMounts, kHybridGroups),
      ElementsAre(
          CgroupHierarchy{1, {"memory"}, "/sys/fs/cgroup/memory/box/7", "/sys/fs/cgroup/memory"},
          CgroupHierarchy{1, {"cpu"}, "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu"},
          CgroupHierarchy{2, {}, "/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified"}));
}

TEST(CgroupPlan, FindsTheOwnGroupWhereAContainerShowsAPartOnly) {
  constexpr std::string_view kMounts =
      "31 29 0:27 /docker/ab /sys/fs/cgroup rw - cgroup2 cgroup rw,nsdelegate\n";
  EXPECT_THAT(parse_hierarchies(kMounts, "0::/docker/ab/x\n"),
              ElementsAre(CgroupHierarchy{2, {}, "/sys/fs/cgroup/x", "/sys/fs/cgroup"}));
  EXPECT_THAT(parse_hierarchies(kMounts, "0::/docker/ab\n"),
              ElementsAre(CgroupHierarchy{2, {}, "/sys/fs/cgroup", "/sys/fs/cgroup"}));
  EXPECT_THAT(parse_hierarchies(kMounts, "0::/docker/abc/x\n"), IsEmpty());
}

TEST(CgroupPlan, ReadsTheNamesOfSystemdAsTheKernelEscapesThem) {
  constexpr std::string_view kMounts =
      "31 29 0:27 /a\\134x2db /sys/fs/c\\040g rw - cgroup2 cgroup rw\n";
  EXPECT_THAT(parse_hierarchies(kMounts, "0::/a\\x2db/x\n"),
              ElementsAre(CgroupHierarchy{2, {}, "/sys/fs/c g/x", "/sys/fs/c g"}));
}

TEST(CgroupPlan, LeavesTheSessionOfAUserOnly) {
  const auto outside = outside_of_session({2, {"pids"}, "/c/user.slice/u/s.scope", "/c"});
  EXPECT_EQ(outside, (CgroupHierarchy{2, {}, "/c/trainyard", "/c"}));
  EXPECT_FALSE(outside_of_session({2, {"pids"}, "/c/system.slice/yard.service", "/c"}));
  EXPECT_FALSE(outside_of_session({2, {"pids"}, "/c", "/c"}));
  EXPECT_FALSE(outside_of_session({1, {"pids"}, "/c/user.slice", "/c"}));
}

TEST(CgroupPlan, LimitsByVersion1WhereTheControllersAreThere) {
  const CgroupPlan plan =
      plan_cgroup("t-1", kLimits, parse_hierarchies(kHybridMounts, kHybridGroups));
  EXPECT_THAT(plan.before, IsEmpty());
  EXPECT_THAT(plan.groups,
              UnorderedElementsAre("/sys/fs/cgroup/memory/box/7/t-1", "/sys/fs/cgroup/cpu/t-1",
                                   "/sys/fs/cgroup/unified/t-1"));
  EXPECT_THAT(
      texts(plan.limits),
      UnorderedElementsAre("/sys/fs/cgroup/memory/box/7/t-1/memory.limit_in_bytes=1048576",
                           "/sys/fs/cgroup/memory/box/7/t-1/memory.memsw.limit_in_bytes=1048576",
                           "/sys/fs/cgroup/cpu/t-1/cpu.cfs_period_us=100000",
                           "/sys/fs/cgroup/cpu/t-1/cpu.cfs_quota_us=150000"));
  EXPECT_THAT(plan.unlimited, ElementsAre("pids"));
}

TEST(CgroupPlan, LimitsByVersion2AndHandsTheControllersOn) {
  const CgroupPlan plan =
      plan_cgroup("t-1", kLimits, {{2, {"cpu", "io", "memory", "pids"}, "/c/me"}});
  EXPECT_THAT(texts(plan.before), ElementsAre("/c/me/cgroup.subtree_control=+memory +pids +cpu"));
  EXPECT_THAT(plan.groups, ElementsAre("/c/me/t-1"));
  EXPECT_THAT(texts(plan.limits),
              ElementsAre("/c/me/t-1/memory.max=1048576", "/c/me/t-1/memory.swap.max=0",
                          "/c/me/t-1/pids.max=100", "/c/me/t-1/cpu.max=150000 100000"));
  EXPECT_THAT(plan.unlimited, IsEmpty());
}

TEST(CgroupPlan, CountsMemoryKillsEvenWithoutALimit) {
  const CgroupPlan plan = plan_cgroup("t-1", {}, {{1, {"memory"}, "/c/m"}, {1, {"pids"}, "/c/p"}});
  EXPECT_THAT(plan.groups, ElementsAre("/c/m/t-1"));
  EXPECT_THAT(plan.limits, IsEmpty());
  EXPECT_THAT(plan.unlimited, IsEmpty());
}

}  // namespace
}  // namespace trainyard::sandbox
