// SPDX-License-Identifier: Apache-2.0
#include "comm/health/watchdog.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>

namespace trainyard::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;

// Ranks of one process, wired as join() wires them: ranks of a host to its leader, leaders to rank
// 0.
class WatchdogTest : public ::testing::Test {
 protected:
  struct Rank {
    Fault fault;
    Mutex mutex;
    RankProgress progress;
    std::optional<Error> shown;
    std::vector<std::string> mapped;
    std::unique_ptr<Watchdog> watchdog;
  };

  // `silent` has connections, but no watchdog: the test closes them by clearing `silent_`.
  void start(const std::vector<std::string>& hosts, std::int32_t silent = -1) {
    std::vector<Member> members;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      members.push_back({.rank = static_cast<std::int32_t>(rank),
                         .size = static_cast<std::int32_t>(hosts.size()),
                         .host_key = hosts[rank],
                         .host_name = hosts[rank],
                         .pid = 100 + static_cast<std::int64_t>(rank)});
      ranks_.push_back(std::make_unique<Rank>());
      ranks_.back()->progress.rank = static_cast<std::int32_t>(rank);
    }
    std::vector<WatchdogParts> parts(hosts.size());
    const Hosts grouped = group(members);
    for (std::size_t i = 1; i < hosts.size(); ++i) {
      const auto rank = static_cast<std::int32_t>(i);
      const std::int32_t leader = grouped.leader_of(rank);
      const std::int32_t above = leader == rank ? 0 : leader;
      int pair[2];
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
      parts[i].up = std::make_unique<ControlLink>(Fd(pair[0]));
      parts[static_cast<std::size_t>(above)].down[rank] =
          std::make_unique<ControlLink>(Fd(pair[1]));
    }
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      parts[i].rank = static_cast<std::int32_t>(i);
      parts[i].members = members;
      parts[i].hosts = grouped;
      wire(parts[i]);
      Rank& one = *ranks_[i];
      if (parts[i].rank == silent) {
        silent_ = std::move(parts[i]);
        continue;
      }
      one.watchdog = std::make_unique<Watchdog>(std::move(parts[i]), one.fault);
      one.fault.pass_on_by([raw = one.watchdog.get()](const Error&) { raw->spread(); });
      one.watchdog->start();
    }
  }

  // To what the ranks show and map.
  void wire(WatchdogParts& parts) {
    const std::int32_t own = parts.rank;
    parts.progress_of = [this](std::int32_t rank) {
      Rank& one = at(rank);
      const MutexLock lock(one.mutex);
      return one.progress;
    };
    parts.fault_of = [this](std::int32_t rank) {
      Rank& one = at(rank);
      const MutexLock lock(one.mutex);
      return one.shown;
    };
    parts.show = [this, own](const Error& error) {
      Rank& one = at(own);
      const MutexLock lock(one.mutex);
      one.shown = error;
    };
    parts.linger = linger_;
    parts.map = [this, own](std::int32_t owner, std::uint64_t id, std::uint64_t, Fd fd) {
      Rank& one = at(own);
      const MutexLock lock(one.mutex);
      one.mapped.push_back(std::to_string(owner) + "." + std::to_string(id) +
                           (fd.is_open() ? "" : " without memory"));
      return Result<void>();
    };
    parts.unmap = [this, own](std::int32_t, std::uint64_t) {
      Rank& one = at(own);
      const MutexLock lock(one.mutex);
      one.mapped.clear();
    };
  }

  Rank& at(std::int32_t rank) { return *ranks_[static_cast<std::size_t>(rank)]; }

  void issue(std::int32_t rank, std::uint64_t sequence, const Signature& signature) {
    const MutexLock lock(at(rank).mutex);
    at(rank).progress.issued = sequence;
    at(rank).progress.recent.emplace_back(sequence, signature);
  }

  void leave(std::int32_t rank) {
    {
      const MutexLock lock(at(rank).mutex);
      at(rank).progress.has_left = true;
    }
    at(rank).watchdog.reset();
  }

  // The fault of a rank, once it is there.
  Error fault_of(std::int32_t rank, milliseconds time = seconds(10)) {
    const auto end = steady_clock::now() + time;
    while (!at(rank).fault.is_raised()) {
      if (steady_clock::now() > end) {
        return {Code::kInternal, "no fault came"};
      }
      std::this_thread::sleep_for(milliseconds(1));
    }
    return at(rank).fault.error();
  }

  // The fault among the words that have come by now.
  static std::string fault_in(ControlLink& link) {
    std::vector<ControlMessage> words;
    static_cast<void>(link.receive(words));
    const auto fault = std::ranges::find_if(
        words, [](const ControlMessage& word) { return word.fields.at(0) == "fault"; });
    return fault == words.end() ? "no fault" : fault->fields.at(2);
  }

  void leave_all() {
    std::vector<std::jthread> threads;
    for (const auto& rank : ranks_) {
      if (rank->watchdog != nullptr) {
        threads.emplace_back([this, number = rank->progress.rank] { leave(number); });
      }
    }
  }

  void TearDown() override { leave_all(); }

  milliseconds linger_ = kLinger;
  std::vector<std::unique_ptr<Rank>> ranks_;
  WatchdogParts silent_;
};

TEST_F(WatchdogTest, AnAbortReachesEveryRankOfEveryHost) {
  start({"a", "a", "b", "b", "c"});
  at(3).fault.raise({Code::kCancelled, "enough"});
  for (const std::int32_t rank : {0, 1, 2, 4}) {
    EXPECT_EQ(fault_of(rank, seconds(1)).message, "enough") << rank;
    EXPECT_EQ(fault_of(rank).code, Code::kCancelled) << rank;
  }
}

// Whoever gets the error may exit at once: the others have the first cause by then, and not only
// the end of the connection.
TEST_F(WatchdogTest, AFaultIsOnItsWayBeforeAnyoneGetsIt) {
  start({"a", "a", "b", "b"}, 0);
  for (const std::int32_t rank : {1, 2}) {
    at(rank).fault.raise({Code::kConflict, "the ranks disagree"});
    static_cast<void>(at(rank).fault.error());
    EXPECT_EQ(fault_in(*silent_.down[rank]), "the ranks disagree");
  }
  silent_ = {};
}

// So is one that came from another rank: rank 1 passes it on to rank 2 before it gives it to
// anyone.
TEST_F(WatchdogTest, AFaultIsPassedOnBeforeAnyoneGetsIt) {
  start({"a", "b", "b"}, 2);
  at(0).fault.raise({Code::kConflict, "the ranks disagree"});
  EXPECT_EQ(fault_of(1, seconds(20)).message, "the ranks disagree");
  EXPECT_EQ(fault_in(*silent_.up), "the ranks disagree");
  silent_ = {};
}

// A closed connection is what the kernel leaves of a killed process.
TEST_F(WatchdogTest, ADeathIsNamedEverywhere) {
  start({"a", "a", "b", "b"}, 3);
  silent_ = {};
  for (const std::int32_t rank : {0, 1, 2}) {
    const Error error = fault_of(rank, seconds(2));
    EXPECT_EQ(error.code, Code::kUnavailable);
    EXPECT_THAT(error.message, HasSubstr("rank 3 (pid 103 on b) died"));
  }
}

TEST_F(WatchdogTest, LeavingInAnyOrderIsNoFault) {
  start({"a", "a", "b", "b"});
  leave(3);
  leave(1);
  std::this_thread::sleep_for(milliseconds(20));
  leave_all();
  for (const auto& rank : ranks_) {
    EXPECT_FALSE(rank->fault.is_raised()) << rank->fault.error().message;
  }
}

TEST_F(WatchdogTest, SeesADisagreementThatNoMessageShows) {
  start({"a", "b", "b"});
  issue(0, 7, {.kind = OpKind::kBroadcast, .root = 0, .count = 4});
  issue(2, 7, {.kind = OpKind::kBroadcast, .root = 2, .count = 4});
  for (const std::int32_t rank : {0, 1, 2}) {
    const Error error = fault_of(rank, seconds(2));
    EXPECT_EQ(error.code, Code::kConflict);
    EXPECT_THAT(error.message, HasSubstr("as operation 7, rank 0"));
    EXPECT_THAT(error.message, HasSubstr("rank 2 (pid 102 on b) runs broadcast of 4"));
  }
}

TEST_F(WatchdogTest, WhoWaitsForARankThatLeftIsTold) {
  start({"a", "a"});
  issue(0, 3, {});
  issue(1, 3, {});
  leave(1);
  issue(0, 4, {});
  const Error error = fault_of(0, seconds(2));
  EXPECT_THAT(error.message, HasSubstr("rank 1 (pid 101 on a) left the world after operation 3"));
}

TEST_F(WatchdogTest, WhoWaitsForALeaderThatLeftLongAgoIsToldOnItsHost) {
  linger_ = milliseconds(50);
  start({"a", "a", "a"});
  for (const std::int32_t rank : {0, 1, 2}) {
    issue(rank, 3, {});
  }
  leave(0);
  issue(1, 4, {});
  for (const std::int32_t rank : {1, 2}) {
    EXPECT_THAT(fault_of(rank, seconds(2)).message,
                HasSubstr("rank 0 (pid 100 on a) left the world after operation 3"));
  }
}

TEST_F(WatchdogTest, WhoWaitsForALeaderThatLeftLongAgoIsToldOnOtherHosts) {
  linger_ = milliseconds(50);
  start({"a", "b", "b"});
  for (const std::int32_t rank : {0, 1, 2}) {
    issue(rank, 3, {});
  }
  leave(0);
  issue(2, 4, {});
  for (const std::int32_t rank : {1, 2}) {
    EXPECT_THAT(fault_of(rank, seconds(2)).message,
                HasSubstr("rank 0 (pid 100 on a) left the world after operation 3"));
  }
}

// The leader has its connections, and does nothing with them.
TEST_F(WatchdogTest, AFaultReachesTheRanksOfAHostWhoseLeaderIsStopped) {
  start({"a", "a", "a"}, 0);
  at(1).fault.raise({Code::kCancelled, "enough"});
  const Error error = fault_of(2, seconds(2));
  EXPECT_EQ(error.code, Code::kCancelled);
  EXPECT_EQ(error.message, "enough");
  silent_ = {};
}

TEST_F(WatchdogTest, WhoSharesABufferWithoutALeaderIsTold) {
  linger_ = milliseconds(50);
  start({"a", "a"});
  leave(0);
  const Fd memory(::memfd_create("test", MFD_CLOEXEC));
  const auto shared = at(1).watchdog->share(1, 4096, memory.get(), seconds(20));
  ASSERT_FALSE(shared);
  EXPECT_EQ(shared.error().code, Code::kUnavailable);
  EXPECT_THAT(shared.error().message, HasSubstr("rank 0 (pid 100 on a) has left the world"));
}

TEST_F(WatchdogTest, TakesABufferToTheRanksOfTheHostOnly) {
  start({"a", "a", "a", "b"});
  const Fd memory(::memfd_create("test", MFD_CLOEXEC));
  for (const std::int32_t owner : {0, 2}) {
    ASSERT_TRUE(at(owner).watchdog->share(5, 4096, memory.get(), seconds(5)));
  }
  EXPECT_EQ(at(1).mapped, (std::vector<std::string>{"0.5", "2.5"}));
  EXPECT_EQ(at(2).mapped, (std::vector<std::string>{"0.5"}));
  EXPECT_TRUE(at(3).mapped.empty());
  at(2).watchdog->unshare(5);
  const auto end = steady_clock::now() + seconds(5);
  const auto are_gone = [&] {
    const MutexLock lock(at(1).mutex);
    return at(1).mapped.empty();
  };
  while (!are_gone() && steady_clock::now() < end) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_TRUE(are_gone());
}

TEST_F(WatchdogTest, WhoSharesABufferIsNotLeftWaitingAfterAFault) {
  start({"a", "a"});
  at(1).fault.raise({Code::kCancelled, "enough"});
  static_cast<void>(fault_of(0));
  const Fd memory(::memfd_create("test", MFD_CLOEXEC));
  static_cast<void>(at(0).watchdog->share(1, 4096, memory.get(), seconds(5)));
  EXPECT_TRUE(at(0).fault.is_raised());
}

}  // namespace
}  // namespace trainyard::comm
