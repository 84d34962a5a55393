// SPDX-License-Identifier: Apache-2.0
// Version 1 runs for real where this machine has it and we are root, as does cgroup.kill; the
// limits of version 2 are written into a tree of plain files.
#include "sandbox/cgroup.h"

#include <algorithm>
#include <csignal>
#include <functional>

#include <gmock/gmock.h>
#include <unistd.h>

#include "base/subprocess.h"

namespace trainyard::sandbox {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::chrono::seconds kDeadline(5);

std::string name_of_test() {
  return "trainyard-test-" + std::to_string(getpid());
}

// A shell in the groups that runs `script`.
Result<Child> start_in(const std::vector<Path>& groups, const std::string& script) {
  std::string join;
  for (const Path& group : groups) {
    join += "echo 0 >" + (group / "cgroup.procs").string() + " && ";
  }
  return spawn({.argv = {"sh", "-c", join + script}, .inherit_env = true});
}

bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kDeadline;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) {
      return false;
    }
    usleep(1000);
  }
  return true;
}

std::size_t population(const Path& group) {
  const auto text = read_file(group / "cgroup.procs");
  return text ? static_cast<std::size_t>(std::count(text->begin(), text->end(), '\n')) : 0;
}

class CgroupTest : public ::testing::Test {
 protected:
  // Skips where this machine has no group of that version that we may divide.
  void make(int version, const CgroupLimits& limits) {
    std::vector<CgroupHierarchy> hierarchies = find_hierarchies();
    std::erase_if(hierarchies, [&](const auto& one) { return one.version != version; });
    plan_ = plan_cgroup(name_of_test(), limits, hierarchies);
    const auto made = make_cgroup(plan_);
    if (plan_.groups.empty() || !made) {
      plan_.groups.clear();
      GTEST_SKIP() << "no groups of version " << version << " here"
                   << (made ? "" : ": " + made.error().message);
    }
  }

  void TearDown() override {
    EXPECT_TRUE(kill_cgroup(plan_.groups, kDeadline));
    EXPECT_TRUE(remove_cgroup(plan_.groups, kDeadline));
    for (const Path& group : plan_.groups) {
      EXPECT_NE(access(group.c_str(), F_OK), 0) << group;
    }
  }

  CgroupPlan plan_;
};

TEST_F(CgroupTest, Version1KillsWhatTakesTooMuchMemoryAndCountsIt) {
  make(1, {.memory = 32U << 20});
  if (IsSkipped()) {
    return;
  }
  const auto before = memory_kills(plan_.groups);
  ASSERT_TRUE(before);
  auto child = start_in(plan_.groups, "x=$(head -c 200M /dev/zero | tr '\\0' x); exit 0");
  ASSERT_TRUE(child) << child.error().message;
  EXPECT_EQ(child->wait()->signal, SIGKILL);
  EXPECT_TRUE(eventually([&] { return memory_kills(plan_.groups) > before; }));
}

TEST_F(CgroupTest, Version1LimitsProcesses) {
  make(1, {.processes = 3});
  if (IsSkipped()) {
    return;
  }
  auto child =
      start_in(plan_.groups, "for i in 1 2 3 4 5 6; do sleep 100 & done 2>/dev/null; exit 0");
  ASSERT_TRUE(child);
  ASSERT_TRUE(child->wait());
  EXPECT_LE(population(plan_.groups.back()), 3U);
}

TEST_F(CgroupTest, Version1KillsATreeThatGrows) {
  make(1, {});
  if (IsSkipped()) {
    return;
  }
  auto child = start_in(plan_.groups, "trap '' TERM; while :; do sleep 100 & sleep 0.01; done");
  ASSERT_TRUE(child);
  ASSERT_TRUE(eventually([&] { return population(plan_.groups.front()) > 5; }));
  EXPECT_TRUE(kill_cgroup(plan_.groups, kDeadline));
  EXPECT_EQ(child->wait()->signal, SIGKILL);
  EXPECT_EQ(population(plan_.groups.front()), 0U);
}

TEST_F(CgroupTest, Version2KillsAtOneStroke) {
  make(2, {});
  if (IsSkipped()) {
    return;
  }
  if (access((plan_.groups.front() / "cgroup.kill").c_str(), F_OK) != 0) {
    GTEST_SKIP() << "this kernel has no cgroup.kill";
  }
  auto child = start_in(plan_.groups, "trap '' TERM; while :; do sleep 100 & sleep 0.01; done");
  ASSERT_TRUE(child);
  ASSERT_TRUE(eventually([&] { return population(plan_.groups.front()) > 5; }));
  EXPECT_TRUE(kill_cgroup(plan_.groups, kDeadline));
  EXPECT_EQ(child->wait()->signal, SIGKILL);
}

TEST(Cgroup, WritesTheLimitsOfVersion2) {
  const auto tree = TempDir::make();
  const Path own = tree->path();
  const CgroupPlan plan = plan_cgroup("t-1", {.memory = 4096, .processes = 7, .cpus = 2},
                                      {{2, {"memory", "pids", "cpu"}, own}});
  // The kernel makes these files with the group; here we do.
  ASSERT_TRUE(make_directories(own / "t-1"));
  for (const char* file : {"cgroup.subtree_control", "t-1/memory.max", "t-1/pids.max",
                           "t-1/cpu.max", "t-1/cgroup.procs"}) {
    ASSERT_TRUE(write_file(own / file, ""));
  }
  const auto made = make_cgroup(plan);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(*read_file(own / "cgroup.subtree_control"), "+memory +pids +cpu");
  EXPECT_EQ(*read_file(own / "t-1/memory.max"), "4096");
  EXPECT_EQ(*read_file(own / "t-1/pids.max"), "7");
  EXPECT_EQ(*read_file(own / "t-1/cpu.max"), "200000 100000");
  ASSERT_TRUE(write_file(own / "t-1/memory.events", "low 0\noom 2\noom_kill 5\n"));
  EXPECT_EQ(memory_kills(plan.groups), 5U);
}

// Version 2, with the server in a group of which a tree of plain files says who lives in it.
struct MakeRoom : ::testing::Test {
  void SetUp() override {
    ASSERT_TRUE(tree_);
    for (const char* place : {"user.slice/session-3.scope", "system.slice/yard.service"}) {
      ASSERT_TRUE(make_directories(tree_->path() / place));
    }
    ASSERT_TRUE(write_file(tree_->path() / "cgroup.controllers", "cpuset cpu io memory pids\n"));
    ASSERT_TRUE(write_file(tree_->path() / "cgroup.subtree_control", ""));
  }
  CgroupHierarchy with(const std::string& own, const std::string& members) const {
    EXPECT_TRUE(write_file(tree_->path() / own / "cgroup.procs", members));
    return {2, {"memory", "pids"}, tree_->path() / own, tree_->path()};
  }

  Result<TempDir> tree_ = TempDir::make();
  const std::string alone_ = std::to_string(getpid()) + "\n";
};

TEST_F(MakeRoom, LeavesAGroupOfOnesOwn) {
  const CgroupHierarchy own = with("user.slice/session-3.scope", alone_);
  ASSERT_TRUE(make_directories(own.own / "trainyard-server"));
  ASSERT_TRUE(write_file(own.own / "trainyard-server/cgroup.procs", ""));
  const auto made = make_room(own, true);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(*made, own);
  EXPECT_EQ(*read_file(own.own / "trainyard-server/cgroup.procs") + "\n", alone_);
}

TEST_F(MakeRoom, GoesOutsideOfTheLoginSessionOfRoot) {
  const auto made = make_room(with("user.slice/session-3.scope", "1\n" + alone_), true);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(*made, (CgroupHierarchy{
                       2, {"cpu", "memory", "pids"}, tree_->path() / "trainyard", tree_->path()}));
  EXPECT_TRUE(std::filesystem::is_directory(made->own));
  EXPECT_EQ(*read_file(tree_->path() / "cgroup.subtree_control"), "+cpu +memory +pids");
}

TEST_F(MakeRoom, StaysWithinTheLimitsOfAServiceAndOfAUser) {
  const auto service = make_room(with("system.slice/yard.service", "1\n" + alone_), true);
  ASSERT_FALSE(service);
  EXPECT_EQ(service.error().code, Code::kConflict);
  EXPECT_THAT(service.error().message, HasSubstr("systemd-run --scope"));
  const auto user = make_room(with("user.slice/session-3.scope", "1\n" + alone_), false);
  ASSERT_FALSE(user);
  EXPECT_THAT(user.error().message, HasSubstr("systemd-run --user --scope -p Delegate=yes"));
  EXPECT_FALSE(std::filesystem::exists(tree_->path() / "trainyard"));
}

TEST(Cgroup, LimitsSwapWhereTheKernelAccountsIt) {
  const auto directory = TempDir::make();
  const Path& own = directory->path();
  ASSERT_TRUE(make_directories(own / "t-1"));
  ASSERT_TRUE(write_file(own / "cgroup.subtree_control", ""));
  ASSERT_TRUE(write_file(own / "t-1/memory.max", ""));
  const CgroupPlan plan = plan_cgroup("t-1", {.memory = 4096}, {{2, {"memory"}, own}});
  ASSERT_TRUE(make_cgroup(plan));  // without memory.swap.max
  EXPECT_FALSE(std::filesystem::exists(own / "t-1/memory.swap.max"));
  ASSERT_TRUE(write_file(own / "t-1/memory.swap.max", ""));
  ASSERT_TRUE(make_cgroup(plan));
  EXPECT_EQ(*read_file(own / "t-1/memory.swap.max"), "0");
}

TEST(Cgroup, MakesAllOrNone) {
  const auto tree = TempDir::make();
  const CgroupPlan plan{.before = {},
                        .groups = {tree->path() / "a", tree->path() / "missing/b"},
                        .limits = {},
                        .unlimited = {}};
  EXPECT_FALSE(make_cgroup(plan));
  EXPECT_FALSE(std::filesystem::exists(tree->path() / "a"));
}

TEST(Cgroup, CountsNothingWhereNothingCounts) {
  EXPECT_FALSE(memory_kills({"/nonexistent"}));
  EXPECT_FALSE(memory_kills({}));
}

}  // namespace
}  // namespace trainyard::sandbox
