// SPDX-License-Identifier: Apache-2.0
#include "sandbox/process.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include "base/subprocess.h"

namespace trainyard::sandbox {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::chrono::seconds kDeadline(5);

Child start_sleeper(const std::string& argument, bool new_session) {
  // The shell stays (two commands), so that its command line keeps the argument.
  Result<Child> child = spawn({.argv = {"/bin/sh", "-c", "sleep 1000; :", "sh", argument},
                               .env = {{"PATH", "/usr/bin:/bin"}},
                               .new_session = new_session});
  EXPECT_TRUE(child);
  return *std::move(child);
}

void end(Child& child, bool session) {
  kill(session ? -child.pid() : child.pid(), SIGKILL);
  EXPECT_TRUE(child.wait());
}

TEST(Identify, NamesAProcessByItsStartTime) {
  const auto first = identify(getpid());
  const auto second = identify(getpid());
  ASSERT_TRUE(first && second);
  EXPECT_EQ(*first, *second);
  EXPECT_GT(first->start_time, 0U);
}

TEST(OpenProcess, RefusesAProcessThatOnlyHasTheSamePid) {
  auto id = identify(getpid());
  ASSERT_TRUE(id);
  EXPECT_TRUE(open_process(*id));
  id->start_time += 1;
  const auto other = open_process(*id);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::kNotFound);
}

TEST(OpenProcess, SeesTheEndOfAProcessThatNobodyReaped) {
  Child child = start_sleeper("/x", true);
  const auto id = identify(child.pid());
  ASSERT_TRUE(id);
  const auto pidfd = open_process(*id);
  ASSERT_TRUE(pidfd);
  EXPECT_FALSE(has_ended(pidfd->get()));
  EXPECT_TRUE(kill_and_wait(pidfd->get(), kDeadline));
  EXPECT_TRUE(has_ended(pidfd->get()));
  end(child, true);
}

TEST(FindSessionLeaders, FindsAWholeArgumentOfALeaderOnly) {
  const std::string mark = "/scratch/of/" + std::to_string(getpid());
  Child leader = start_sleeper(mark, true);
  Child member = start_sleeper(mark, false);
  // spawn() is back once the new program has its memory, a moment before it has its command line.
  auto found = find_session_leaders(mark);
  const auto deadline = std::chrono::steady_clock::now() + kDeadline;
  while (found.empty() && std::chrono::steady_clock::now() < deadline) {
    found = find_session_leaders(mark);
  }
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].pid, leader.pid());
  EXPECT_THAT(find_session_leaders(mark.substr(0, mark.size() - 1)), IsEmpty());
  end(leader, true);
  end(member, false);
}

TEST(KillAllIn, FindsNobodyInANamespaceThatIsGone) {
  EXPECT_TRUE(kill_all_in({"trainyard-no-such-1"}, kDeadline));
}

}  // namespace
}  // namespace trainyard::sandbox
