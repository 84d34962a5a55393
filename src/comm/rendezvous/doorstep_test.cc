// SPDX-License-Identifier: Apache-2.0
#include "comm/rendezvous/doorstep.h"

#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "comm/rendezvous/sockets.h"

namespace trainyard::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;

class DoorstepTest : public ::testing::Test {
 protected:
  Fd connect() { return *connect_tcp({"127.0.0.1", listener_.port}, seconds(20), false); }

  // One round: poll, then look.
  std::vector<Doorstep::Guest> round() {
    std::vector<pollfd> entries;
    doorstep_.list(entries);
    EXPECT_EQ(entries.size(), doorstep_.size());
    ::poll(entries.data(), entries.size(), 10);
    return doorstep_.look(entries);
  }

  // Until somebody has greeted.
  Fields next_greeting() {
    const auto end = steady_clock::now() + seconds(20);
    while (steady_clock::now() < end) {
      if (auto guests = round(); !guests.empty()) {
        return guests.front().greeting;
      }
    }
    return {"nobody came"};
  }

  // Until so many are there.
  void wait_for_strangers(std::size_t count) {
    const auto end = steady_clock::now() + seconds(20);
    while (doorstep_.size() != 1 + count && steady_clock::now() < end) {
      EXPECT_TRUE(round().empty());
    }
    ASSERT_EQ(doorstep_.size(), 1 + count);
  }

  TcpListener listener_ = *listen_tcp({"127.0.0.1", 0});
  Doorstep doorstep_{listener_.fd.get()};
};

TEST_F(DoorstepTest, LetsInWhoGreets) {
  const Fd silent = connect();
  ControlLink rank(connect());
  rank.send({"join", "secret", "3"});
  EXPECT_EQ(next_greeting(), (Fields{"join", "secret", "3"}));
  wait_for_strangers(1);
}

TEST_F(DoorstepTest, TellsWhoMakesNoiseThatItIsNone) {
  ControlLink stranger(connect());
  ASSERT_TRUE(write_all(stranger.fd(), "GET / HTTP/1.1\r\n\r\n"));
  wait_for_strangers(1);
  wait_for_strangers(0);
  const auto answer = stranger.wait(seconds(20));
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_THAT(answer->fields.at(1), HasSubstr("not Trainyard's protocol"));
}

TEST_F(DoorstepTest, ReadsNoMoreThanAGreeting) {
  const Fd stranger = connect();
  ASSERT_TRUE(write_all(stranger.get(), encode_frame({std::string(kMaxGreeting + 1, 'x')})));
  wait_for_strangers(1);
  wait_for_strangers(0);
}

TEST_F(DoorstepTest, ARankFindsAPlaceThoughStrangersHoldAll) {
  std::vector<Fd> strangers;
  for (std::size_t i = 0; i < kMaxStrangers + 20; ++i) {
    strangers.push_back(connect());
    EXPECT_TRUE(round().empty());
  }
  wait_for_strangers(kMaxStrangers);
  ControlLink rank(connect());
  rank.send({"join", "secret", "3"});
  EXPECT_EQ(next_greeting(), (Fields{"join", "secret", "3"}));
  // Those who came first are gone.
  ControlLink first(std::move(strangers.front()));
  EXPECT_EQ(first.wait(seconds(20)).error().code, Code::kUnavailable);
}

TEST_F(DoorstepTest, LetsInAllOfManyRanksThatComeAtOnce) {
  std::vector<ControlLink> ranks;
  for (std::size_t i = 0; i < kMaxStrangers + 40; ++i) {
    ranks.emplace_back(connect());
  }
  wait_for_strangers(kMaxStrangers);
  std::set<std::string> greeted;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    ranks[i].send({"join", "secret", std::to_string(i)});
  }
  const auto end = steady_clock::now() + seconds(20);
  while (greeted.size() < ranks.size() && steady_clock::now() < end) {
    for (const Doorstep::Guest& guest : round()) {
      greeted.insert(guest.greeting.at(2));
    }
  }
  EXPECT_EQ(greeted.size(), ranks.size());
}

// One byte at a time is no way to stay.
TEST_F(DoorstepTest, ItsPatienceIsThatWithTheOldest) {
  EXPECT_LT(doorstep_.patience(), milliseconds(0));
  const auto before = steady_clock::now();
  const Fd slow = connect();
  wait_for_strangers(1);
  ASSERT_TRUE(write_all(slow.get(), "T"));
  EXPECT_TRUE(round().empty());
  const auto spent = std::chrono::ceil<milliseconds>(steady_clock::now() - before);
  EXPECT_LE(doorstep_.patience(), kGreetingTime);
  EXPECT_GE(doorstep_.patience(), kGreetingTime - spent - seconds(1));
}

// This process may open no more files: the connection waits, and so does the thread.
TEST_F(DoorstepTest, RestsWhenThereAreNoDescriptors) {
  const Fd waiting = connect();
  rlimit usual{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = usual.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  pollfd ready{.fd = listener_.fd.get(), .events = POLLIN, .revents = POLLIN};
  const auto guests = doorstep_.look({&ready, 1});
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
  EXPECT_TRUE(guests.empty());
  EXPECT_EQ(doorstep_.size(), 1U);
  EXPECT_LE(doorstep_.patience(), milliseconds(100));
  wait_for_strangers(1);
}

}  // namespace
}  // namespace trainyard::comm
