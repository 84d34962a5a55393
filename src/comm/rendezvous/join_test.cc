// SPDX-License-Identifier: Apache-2.0
#include "comm/rendezvous/join.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "base/file.h"
#include "comm/rendezvous/frame.h"
#include "comm/rendezvous/interfaces.h"
#include "comm/rendezvous/memory_store.h"

namespace trainyard::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

CommunicatorOptions options_of(std::int32_t rank, std::int32_t size) {
  CommunicatorOptions options;
  options.rank = rank;
  options.size = size;
  options.join_timeout = seconds(10);
  return options;
}

Result<std::vector<Fd>> make_segments(std::int32_t) {
  std::vector<Fd> segments;
  segments.emplace_back(::memfd_create("one", MFD_CLOEXEC));
  segments.emplace_back(::memfd_create("two", MFD_CLOEXEC));
  return segments;
}

// All ranks at once; `host_of` names each rank's host.
std::vector<Result<Joined>> join_all(std::int32_t size,
                                     const std::function<std::string(std::int32_t)>& host_of) {
  MemoryStore store;
  std::vector<Result<Joined>> joined;
  for (std::int32_t rank = 0; rank < size; ++rank) {
    joined.emplace_back(Error{});
  }
  std::vector<std::jthread> threads;
  for (std::int32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      CommunicatorOptions options = options_of(rank, size);
      options.host = host_of(rank);
      joined[static_cast<std::size_t>(rank)] =
          join(options, store, make_segments, "of rank " + std::to_string(options.rank));
    });
  }
  threads.clear();
  return joined;
}

TEST(Join, GivesTheRanksOfOneHostTheirSharedMemory) {
  const auto joined = join_all(4, [](std::int32_t) { return "a"; });
  for (const auto& one : joined) {
    ASSERT_TRUE(one) << one.error().message;
    EXPECT_EQ(one->segments.size(), 2U);
    EXPECT_EQ(one->settings, "of rank 0");
    EXPECT_FALSE(one->data.fd.is_open());  // no port is opened
    EXPECT_EQ(one->members.size(), 4U);
  }
  EXPECT_EQ(joined[0]->down.size(), 3U);
  EXPECT_NE(joined[2]->up, nullptr);
}

TEST(Join, ConnectsLeadersOfHostsToRankZero) {
  const auto joined = join_all(5, [](std::int32_t rank) { return rank % 2 == 0 ? "even" : "odd"; });
  for (const auto& one : joined) {
    ASSERT_TRUE(one) << one.error().message;
    EXPECT_THAT(one->hosts.of_rank, ElementsAre(0, 1, 0, 1, 0));
    EXPECT_EQ(one->data_addresses.size(), 5U);
    EXPECT_TRUE(one->data.fd.is_open());
  }
  EXPECT_EQ(joined[0]->down.size(), 3U);  // ranks 2 and 4, and the other leader
  EXPECT_EQ(joined[1]->down.size(), 1U);
  EXPECT_NE(joined[1]->up, nullptr);
}

TEST(Join, NamesThoseWhoNeverCome) {
  MemoryStore store;
  CommunicatorOptions options = options_of(1, 3);
  options.join_timeout = milliseconds(50);
  const auto joined =
      join(options, store, make_segments, "of rank " + std::to_string(options.rank));
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, Code::kDeadline);
  EXPECT_THAT(joined.error().message, HasSubstr("missing 0 and 2; there are rank 1 (pid "));
  const auto addresses = choose_addresses(*read_interfaces(), "", false);
  EXPECT_THAT(joined.error().message, HasSubstr(", " + addresses->front()));
}

TEST(Join, NamesTheAddressesOfThoseWhoDoNotConnect) {
  MemoryStore store;
  const Member other{.rank = 1,
                     .size = 2,
                     .host_key = "a",
                     .host_name = "algo-2",
                     .pid = 7,
                     .addresses = {"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"}};
  ASSERT_TRUE(store.claim("trainyard/world/rank/1", encode(other)));
  CommunicatorOptions options = options_of(0, 2);
  options.host = "a";
  options.join_timeout = milliseconds(50);
  const auto joined = join(options, store, make_segments, "");
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, Code::kDeadline);
  EXPECT_THAT(joined.error().message,
              HasSubstr("came from rank 1 (pid 7 on algo-2, 10.0.0.1, 10.0.0.2, 10.0.0.3, ...)"));
}

TEST(Join, RefusesTwoProcessesWithOneRank) {
  MemoryStore store;
  CommunicatorOptions options = options_of(1, 3);
  options.join_timeout = milliseconds(20);
  static_cast<void>(join(options, store, make_segments, "of rank " + std::to_string(options.rank)));
  const auto second =
      join(options, store, make_segments, "of rank " + std::to_string(options.rank));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kAlreadyExists);
}

void expect_both_sizes(const Result<Joined>& joined, const std::string& own,
                       const std::string& theirs) {
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, Code::kConflict);
  EXPECT_THAT(joined.error().message, HasSubstr("the world \"world\" has two sizes: rank "));
  EXPECT_THAT(joined.error().message, HasSubstr("was told of " + theirs + " ranks"));
  EXPECT_THAT(joined.error().message, HasSubstr("of " + own));
}

// Both are told at once, though neither world can ever be complete.
TEST(Join, RefusesAnotherSizeOfTheWorld) {
  MemoryStore store;
  Result<Joined> first = Error{};
  std::jthread other([&] { first = join(options_of(1, 5), store, make_segments, ""); });
  ASSERT_TRUE(store.wait_for({"trainyard/world/size/0"}, seconds(20)));
  const auto begin = std::chrono::steady_clock::now();
  expect_both_sizes(join(options_of(0, 3), store, make_segments, ""), "3", "5");
  other.join();
  expect_both_sizes(first, "5", "3");
  // Who comes later finds its number taken by one of another world.
  expect_both_sizes(join(options_of(4, 5), store, make_segments, ""), "5", "3");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(10));  // the time to join
}

// A segment has no part for the 257th: each rank knows by itself, and none waits for another.
TEST(Join, RefusesMoreRanksOnAHostThanASegmentHas) {
  for (const std::int32_t own : {0, 5}) {
    MemoryStore store;
    ASSERT_TRUE(store.claim("trainyard/world/secret/0", "secret"));
    for (std::int32_t rank = 0; rank < 257; ++rank) {
      const Member member{.rank = rank, .size = 257, .host_key = "a", .host_name = "algo-1"};
      if (rank != own) {
        ASSERT_TRUE(store.claim("trainyard/world/rank/" + std::to_string(rank), encode(member)));
      }
    }
    CommunicatorOptions options = options_of(own, 257);
    options.host = "a";
    const auto joined = join(options, store, make_segments, "");
    ASSERT_FALSE(joined);
    EXPECT_EQ(joined.error().code, Code::kInvalidArgument);
    EXPECT_THAT(joined.error().message, HasSubstr("has 257 ranks of this world"));
    EXPECT_THAT(joined.error().message, HasSubstr("at most 256"));
  }
}

TEST(Join, NamesBothVersionsOfTheProtocol) {
  MemoryStore store;
  ASSERT_TRUE(store.claim("trainyard/world/rank/1", encode_frame({"1", "2"}, 9)));
  const auto joined = join(options_of(0, 2), store, make_segments, "");
  ASSERT_FALSE(joined);
  EXPECT_THAT(joined.error().message, HasSubstr("rank 1"));
  EXPECT_THAT(joined.error().message, HasSubstr("version 9"));
}

// Rank 0 with the loopback for an interface, and a rank 1 that is written by hand.
Error loopback_with(const Member& other) {
  MemoryStore store;
  EXPECT_TRUE(store.claim("trainyard/world/rank/1", encode(other)));
  CommunicatorOptions options = options_of(0, 2);
  options.interface = "127.0.0.1";
  options.join_timeout = milliseconds(50);
  const auto joined = join(options, store, make_segments, "");
  return joined ? Error{} : joined.error();
}

// Containers may all have one name.
TEST(Join, TellsNoLoopbackToAnotherNetworkWhateverTheHostsAreCalled) {
  const Machine machine = *read_this_machine("");
  Member other{.rank = 1, .size = 2, .host_key = "a", .host_name = machine.host_name};
  other.network = "another";
  EXPECT_THAT(loopback_with(other).message, HasSubstr("is the loopback"));
  other.network = machine.network;
  other.host_name = "algo-2";
  EXPECT_THAT(loopback_with(other).message, HasSubstr("no connection came from rank 1"));
}

// The test is rank 1, by hand.
TEST(Join, IsNotDisturbedByStrangersOnItsPort) {
  MemoryStore store;
  Result<Joined> first = Error{};
  std::jthread leader([&] { first = join(options_of(0, 2), store, make_segments, ""); });
  ASSERT_TRUE(store.claim("trainyard/world/rank/1",
                          encode(Member{.rank = 1, .size = 2, .host_key = "another host"})));
  const auto known =
      store.wait_for({"trainyard/world/address/0", "trainyard/world/secret/0"}, seconds(5));
  ASSERT_TRUE(known);
  FrameReader reader;
  reader.feed(known->front());
  const Fields address = **reader.next();
  const Endpoint control{"127.0.0.1", static_cast<std::uint16_t>(std::stoi(address[1]))};
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n\r\n"), encode_frame({"join", "guessed", "1"}),
        encode_frame({"join"}), encode_frame({"join", known->back(), "7"})}) {
    const Fd stranger = *connect_tcp(control, seconds(5), false);
    ASSERT_TRUE(write_all(stranger.get(), bytes));
    ASSERT_TRUE(*wait_ready(stranger.get(), Ready::kRead, seconds(5)));  // it is closed
  }
  ControlLink own(*connect_tcp(control, seconds(5), false));
  own.send({"join", known->back(), "1"});
  EXPECT_EQ(own.wait(seconds(5))->fields, (Fields{"welcome", "", "0"}));
  ASSERT_TRUE(store.claim("trainyard/world/address/1", encode_frame({"1", "0", "127.0.0.1"})));
  leader.join();
  EXPECT_TRUE(first) << first.error().message;
}

TEST(Join, AWorldOfOneNeedsNobody) {
  MemoryStore store;
  const auto joined = join(options_of(0, 1), store, make_segments, "");
  ASSERT_TRUE(joined) << joined.error().message;
  EXPECT_EQ(joined->segments.size(), 2U);  // its own, which nobody else maps
  EXPECT_EQ(join(options_of(1, 1), store, make_segments, "").error().code, Code::kInvalidArgument);
}

TEST(Join, ListensInTheFolderForSockets) {
  const TempDir folder = *TempDir::make();
  MemoryStore store;
  CommunicatorOptions options = options_of(0, 1);
  options.sockets = folder.path();
  const auto joined = join(options, store, make_segments, "");
  ASSERT_TRUE(joined) << joined.error().message;
  EXPECT_THAT(joined->members[0].local_socket, StartsWith(options.sockets + "/comm-"));
}

TEST(Join, IsOnAHostOfItsOwnNetworkWhereTheFolderForSocketsIsMissing) {
  MemoryStore store;
  CommunicatorOptions options = options_of(0, 1);
  options.sockets = "/nowhere/at/all";
  ::testing::internal::CaptureStderr();
  const auto joined = join(options, store, make_segments, "");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("there is no folder /nowhere/at/all"));
  ASSERT_TRUE(joined) << joined.error().message;
  EXPECT_THAT(joined->members[0].local_socket, StartsWith("@trainyard-"));
  EXPECT_EQ(joined->members[0].host_key, read_this_machine("")->host_key);
}

TEST(Join, RefusesTimeOutsThatAreNone) {
  MemoryStore store;
  CommunicatorOptions options = options_of(0, 1);
  for (const milliseconds time : {milliseconds(0), milliseconds(-1), milliseconds::max()}) {
    options.timeout = time;
    EXPECT_EQ(join(options, store, make_segments, "").error().code, Code::kInvalidArgument);
  }
}

TEST(ListRanks, ReadsAsPeopleWriteIt) {
  EXPECT_EQ(list_ranks({3}), "3");
  EXPECT_EQ(list_ranks({1, 2, 5}), "1, 2 and 5");
}

}  // namespace
}  // namespace trainyard::comm
