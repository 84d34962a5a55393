// SPDX-License-Identifier: Apache-2.0
#include "sandbox/process_tree.h"

#include <csignal>
#include <string>

#include <gmock/gmock.h>
#include <unistd.h>

#include "base/file.h"
#include "base/subprocess.h"

namespace trainyard::sandbox {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<std::string> kScratches = {"/h/run/job/1/algo-1"};

TEST(MembersOf, AreSupervisorAndContainersWithAllBelow) {
  const std::vector<ProcessFacts> processes = {
      {.process = {9, 100}, .parent = {7, 100}, .arguments = {"python", "train.py"}},
      {.process = {5, 100},
       .parent = {1, 100},
       .arguments = {"trainyard", "instance", "--scratch", kScratches[0]}},
      {.process = {7, 100},
       .parent = {6, 100},
       .arguments = {"/proc/self/fd/3", "instance-init", "1"}},
      {.process = {6, 100},
       .parent = {1, 100},
       .arguments = {"bwrap", "--bind", kScratches[0] + "/ml", "/opt/ml"}},
      {.process = {8, 100}, .parent = {5, 100}, .arguments = {"x"}}};
  EXPECT_THAT(members_of(processes, kScratches),
              ElementsAre(ProcessId{5, 100}, ProcessId{6, 100}, ProcessId{7, 100},
                          ProcessId{8, 100}, ProcessId{9, 100}));
}

TEST(MembersOf, AreNobodyElses) {
  const std::vector<ProcessFacts> processes = {
      {.process = {5, 100},
       .parent = {1, 100},
       .arguments = {"tail", "-f", kScratches[0] + "/supervisor.log"}},
      {.process = {6, 100},
       .parent = {1, 100},
       .arguments = {"bwrap", "--bind", "/h/run/job/1/algo-10/ml", "/x"}},
      {.process = {7, 100},
       .parent = {1, 100},
       .arguments = {"trainyard", "instance", "--scratch", "/h/run/job/1/a"}},
      {.process = {8, 100}, .parent = {0, 100}, .arguments = {}}};
  EXPECT_THAT(members_of(processes, kScratches), IsEmpty());
}

// Process 5 has ended, and its number is another's since: while we look, or before.
TEST(MembersOf, AdoptNobodyThroughANumberThatIsUsedAgain) {
  const std::vector<ProcessFacts> processes = {
      {.process = {5, 100},
       .parent = {1, 1},
       .arguments = {"trainyard", "instance", "--scratch", kScratches[0]}},
      {.process = {6, 101}, .parent = {5, 100}, .arguments = {"ours"}},
      {.process = {7, 102}, .parent = {5, 102}, .arguments = {"child of the next process 5"}},
      {.process = {8, 99}, .parent = {5, 100}, .arguments = {"older than its parent"}}};
  EXPECT_THAT(members_of(processes, kScratches), ElementsAre(ProcessId{5, 100}, ProcessId{6, 101}));
}

TEST(KillInstances, EndsATreeWhoseMiddleHasGone) {
  const auto directory = TempDir::make();
  const std::string scratch = directory->path().string();
  // The shell is the supervisor; its child has a child that hears nothing.
  auto child = spawn(
      {.argv = {"sh", "-c", "(trap '' TERM HUP INT; sleep 100 & echo $! >\"$4/pid\"; wait) & wait",
                "sh", "instance", "--server", "--scratch", scratch},
       .inherit_env = true,
       .new_session = true});
  ASSERT_TRUE(child) << child.error().message;
  Result<std::string> pid = Error{};
  for (int i = 0; i < 2000 && (!pid || pid->empty()); ++i) {
    pid = read_file(directory->path() / "pid");
    usleep(1000);
  }
  ASSERT_TRUE(pid);
  EXPECT_TRUE(kill_instances({scratch}, std::chrono::seconds(5)));
  EXPECT_EQ(child->wait()->signal, SIGKILL);
  EXPECT_EQ(kill(std::stoi(*pid), 0) == 0 &&
                read_file("/proc/" + std::to_string(std::stoi(*pid)) + "/cmdline")
                    .value_or("")
                    .starts_with("sleep"),
            false);
}

bool anybody_sleeps_for(const std::string& seconds) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto line = read_file(entry.path() / "cmdline");
    if (line && *line == std::string("sleep\0", 6) + seconds + '\0') {
      return true;
    }
  }
  return false;
}

TEST(KillInstances, MissesNothingThatIsBornMeanwhile) {
  const auto directory = TempDir::make();
  const std::string scratch = directory->path().string();
  const std::string seconds = "86397." + std::to_string(getpid());
  auto child = spawn({.argv = {"sh", "-c", "while :; do sleep \"$5\" & done", "sh", "instance",
                               "--server", "--scratch", scratch, seconds},
                      .inherit_env = true,
                      .new_session = true});
  ASSERT_TRUE(child);
  usleep(20'000);
  EXPECT_TRUE(kill_instances({scratch}, std::chrono::seconds(20)));
  EXPECT_EQ(child->wait()->signal, SIGKILL);
  EXPECT_FALSE(anybody_sleeps_for(seconds));
}

}  // namespace
}  // namespace trainyard::sandbox
