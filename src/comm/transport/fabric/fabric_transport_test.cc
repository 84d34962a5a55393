// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/fabric/fabric_transport.h"

#include <atomic>
#include <csignal>
#include <filesystem>
#include <map>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "comm/transport/fabric/signal_keeper.h"
#include "comm/transport/fabric/tag.h"
#include "testing/fabric_ranks.h"

#if defined(__SANITIZE_THREAD__)
// The sanitizer knows nothing of how libfabric synchronizes what it copies from rank to rank. At
// the end of the process, what the library unlocks last seems to come from the loader.
extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:libfabric.so.1\nmutex:_dl_call_fini";
}
#endif

namespace trainyard::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::FabricRanks;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::chrono::microseconds kTurn{2000};

class FabricTransportTest : public ::testing::TestWithParam<std::string> {
 protected:
  void start(std::int32_t size) { ranks_ = std::make_unique<FabricRanks>(GetParam(), size); }
  FabricTransport& transport(std::int32_t rank) { return *ranks_->at(rank).transport; }
  Fault& fault(std::int32_t rank) { return ranks_->at(rank).fault; }

  const Inbound* receive(std::int32_t rank, std::int32_t from) {
    const auto end = steady_clock::now() + seconds(20);
    while (steady_clock::now() < end && !fault(rank).is_raised()) {
      if (const Inbound* inbound = transport(rank).try_receive(from, {})) {
        return inbound;
      }
      transport(rank).wait(Patience::kSleep, kTurn);
    }
    return nullptr;
  }

  void send(std::int32_t rank, std::int32_t to, std::span<const std::byte> bytes,
            const Label& label) {
    const auto end = steady_clock::now() + seconds(20);
    std::span<std::byte> slot = transport(rank).try_reserve({&to, 1}, bytes.size());
    while (slot.data() == nullptr && steady_clock::now() < end) {
      transport(rank).wait(Patience::kSleep, kTurn);
      slot = transport(rank).try_reserve({&to, 1}, bytes.size());
    }
    ASSERT_NE(slot.data(), nullptr);
    std::ranges::copy(bytes, slot.begin());
    transport(rank).publish({&to, 1}, label);
  }

  void look_until(std::int32_t rank, const std::atomic<bool>& is_over) {
    while (!is_over) {
      transport(rank).wait(Patience::kSleep, kTurn);
    }
  }

  // Until all that was published has left.
  void send_out(std::int32_t rank) {
    const auto end = steady_clock::now() + seconds(20);
    while (!transport(rank).flush() && steady_clock::now() < end) {
      transport(rank).wait(Patience::kSleep, kTurn);
    }
  }

  std::unique_ptr<FabricRanks> ranks_;
};

std::string name_of_provider(const ::testing::TestParamInfo<std::string>& info) {
  return info.param == "shm" ? "shm" : "tcp_rxm";
}
INSTANTIATE_TEST_SUITE_P(Providers, FabricTransportTest, ::testing::Values("tcp;ofi_rxm", "shm"),
                         name_of_provider);

std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    data[i] = static_cast<std::byte>((i * 7 + seed) & 0xff);
  }
  return data;
}

TEST_P(FabricTransportTest, MessagesOfAnySizeComeInOrder) {
  start(2);
  const std::size_t most = transport(0).max_message();
  const std::vector<std::size_t> sizes = {0,    1, 31,       4064, 4065, 4096, 65537, most, 3,
                                          most, 0, most - 1, 1,    1024, 1025, 16384, 16385};
  std::jthread sender([&] {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      send(0, 1, pattern(sizes[i], static_cast<unsigned>(i)),
           {.sequence = i + 1, .signature = {.count = sizes[i]}});
    }
    send_out(0);
  });
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const Inbound* inbound = receive(1, 0);
    ASSERT_NE(inbound, nullptr) << i;
    EXPECT_EQ(inbound->label.sequence, i + 1);
    EXPECT_EQ(inbound->label.signature.count, sizes[i]);
    EXPECT_TRUE(std::ranges::equal(inbound->bytes, pattern(sizes[i], static_cast<unsigned>(i))));
    transport(1).release(0);
  }
}

TEST_P(FabricTransportTest, BothSidesMaySendMoreThanTheWindowHolds) {
  start(2);
  constexpr std::uint64_t kMessages = 300;
  const auto run = [&](std::int32_t rank) {
    std::uint64_t sent = 0;
    for (std::uint64_t got = 0; got < kMessages;) {
      const std::int32_t peer = 1 - rank;
      const auto slot = sent < kMessages ? transport(rank).try_reserve({&peer, 1}, 20'000)
                                         : std::span<std::byte>();
      if (slot.data() != nullptr) {
        std::ranges::fill(slot, static_cast<std::byte>(sent));
        transport(rank).publish({&peer, 1}, {.sequence = ++sent, .signature = {}});
        continue;
      }
      const Inbound* inbound = receive(rank, peer);
      ASSERT_NE(inbound, nullptr);
      ASSERT_EQ(inbound->label.sequence, got + 1);
      ASSERT_EQ(inbound->bytes.back(), static_cast<std::byte>(got));
      transport(rank).release(peer);
      ++got;
    }
    send_out(rank);
  };
  std::jthread other([&] { run(1); });
  run(0);
}

// The receiver looks, so that providers can move, but takes nothing until it is told to.
TEST_P(FabricTransportTest, ASenderGetsNoFurtherThanItsWindow) {
  start(2);
  constexpr std::uint64_t kGranted = 32;
  std::atomic<bool> may_take = false;
  std::jthread receiver([&] {
    const auto end = steady_clock::now() + seconds(20);
    while (!may_take && steady_clock::now() < end) {
      static_cast<void>(transport(1).try_receive(0, {}));
      transport(1).wait(Patience::kSleep, kTurn);
    }
    for (std::uint64_t i = 0; i <= kGranted; ++i) {
      const Inbound* inbound = receive(1, 0);
      ASSERT_NE(inbound, nullptr) << i;
      ASSERT_EQ(inbound->label.sequence, i + 1);
      transport(1).release(0);
    }
    for (int i = 0; i < 200; ++i) {  // the credit goes out
      transport(1).wait(Patience::kSleep, kTurn);
    }
  });
  for (std::uint64_t i = 0; i < kGranted; ++i) {
    send(0, 1, {}, {.sequence = i + 1, .signature = {}});
  }
  send_out(0);
  EXPECT_TRUE(transport(0).flush());
  send(0, 1, {}, {.sequence = kGranted + 1, .signature = {}});
  for (int i = 0; i < 20; ++i) {
    transport(0).wait(Patience::kSleep, kTurn);
    EXPECT_FALSE(transport(0).flush());
  }
  may_take = true;
  send_out(0);
  EXPECT_TRUE(transport(0).flush());
}

TEST_P(FabricTransportTest, HasTheRoomThatItPromises) {
  start(2);
  const std::int32_t to = 1;
  const std::size_t whole = transport(0).max_message();
  for (std::size_t left = transport(0).room(); left >= whole + Transport::kMessageCost;
       left -= whole + Transport::kMessageCost) {
    ASSERT_NE(transport(0).try_reserve({&to, 1}, whole).data(), nullptr);
    transport(0).publish({&to, 1}, {.sequence = 1, .signature = {}});
  }
  std::jthread receiver([&] {
    for (std::size_t i = 0; i < transport(0).room() / (whole + Transport::kMessageCost); ++i) {
      ASSERT_NE(receive(1, 0), nullptr) << i;
      transport(1).release(0);
    }
  });
  send_out(0);
  EXPECT_TRUE(transport(0).flush());
}

TEST_P(FabricTransportTest, OneMessageGoesToSeveral) {
  start(4);
  const std::vector<std::int32_t> all = {1, 2, 3};
  const auto slot = transport(0).try_reserve(all, 8);
  std::ranges::fill(slot, std::byte{9});
  transport(0).publish(all, {.sequence = 3, .signature = {}});
  std::jthread sender([&] { send_out(0); });
  for (const std::int32_t rank : all) {
    const Inbound* inbound = receive(rank, 0);
    ASSERT_NE(inbound, nullptr);
    EXPECT_EQ(inbound->bytes[7], std::byte{9});
    EXPECT_EQ(inbound->label.sequence, 3U);
  }
}

TEST_P(FabricTransportTest, WhatWasPublishedArrivesThoughItsSenderEnds) {
  start(2);
  constexpr std::size_t kMessages = 20;
  std::atomic<bool> has_ended = false;
  std::jthread sender([&] {
    for (std::size_t i = 0; i < kMessages; ++i) {
      send(1, 0, pattern(60'000, 1), {.sequence = 1, .signature = {}});
    }
    send_out(1);
    ranks_->end(1);
    has_ended = true;
  });
  for (std::size_t i = 0; i < kMessages; ++i) {
    ASSERT_NE(receive(0, 1), nullptr) << i;
    transport(0).release(1);
  }
  look_until(0, has_ended);
}

// What has left its process may still be lost when its socket closes before it was delivered.
TEST_P(FabricTransportTest, ASenderStaysUntilItsPeerHasSeenItsLastMessage) {
  start(2);
  std::jthread first([&] {
    send(0, 1, {}, {.sequence = 1, .signature = {}});
    send_out(0);
  });
  ASSERT_NE(receive(1, 0), nullptr);
  transport(1).release(0);
  first.join();
  steady_clock::time_point ended;
  std::atomic<bool> has_ended = false;
  send(0, 1, pattern(100, 1), {.sequence = 2, .signature = {}});  // leaves its process at once
  std::jthread sender([&] {
    ranks_->end(0);
    ended = steady_clock::now();
    has_ended = true;
  });
  std::this_thread::sleep_for(milliseconds(100));  // in which it would end, did it not wait
  const auto looked = steady_clock::now();
  ASSERT_NE(receive(1, 0), nullptr);
  look_until(1, has_ended);
  EXPECT_GT(ended, looked);
  EXPECT_LT(ended, looked + seconds(4));  // less than it waits for a peer that does not look
}

TEST_P(FabricTransportTest, APeerThatHasLeftIsNoFaultWhileItIsNotNeeded) {
  start(2);
  std::atomic<bool> has_ended = false;
  std::jthread sender([&] {
    send(1, 0, pattern(100, 1), {.sequence = 1, .signature = {}});
    send_out(1);
    ranks_->end(1);
    has_ended = true;
  });
  ASSERT_NE(receive(0, 1), nullptr);
  transport(0).release(1);
  look_until(0, has_ended);
  const std::int32_t to = 1;
  ASSERT_NE(transport(0).try_reserve({&to, 1}, 0).data(), nullptr);
  transport(0).publish_unneeded({&to, 1}, {.sequence = 1, .signature = {}});
  const auto end = steady_clock::now() + BrokenPeers::kLetOthersExplain + milliseconds(500);
  while (steady_clock::now() < end) {
    EXPECT_EQ(transport(0).try_receive_unneeded(1), nullptr);
    transport(0).wait(Patience::kSleep, kTurn);
  }
  EXPECT_FALSE(fault(0).is_raised());
  EXPECT_TRUE(transport(0).flush());
}

TEST_P(FabricTransportTest, NothingGoesOutAfterAFault) {
  start(2);
  fault(0).raise({Code::kCancelled, "enough"});
  const std::int32_t to = 1;
  static_cast<void>(transport(0).try_reserve({&to, 1}, 1));
  transport(0).publish({&to, 1}, {.sequence = 1, .signature = {}});
  EXPECT_TRUE(transport(0).flush());
  const auto begin = steady_clock::now();
  ranks_->end(0);
  EXPECT_LT(steady_clock::now() - begin, seconds(4));  // less than is given to last messages
}

TEST_P(FabricTransportTest, WakesFromAnotherThread) {
  start(2);
  std::jthread waker([&] { transport(0).wake(); });
  const auto begin = steady_clock::now();
  static_cast<void>(transport(0).try_receive(1, {}));
  transport(0).wait(Patience::kSleep, seconds(10));
  EXPECT_LT(steady_clock::now() - begin, seconds(5));
}

TEST_P(FabricTransportTest, SignalsStayTheUsers) {
  std::map<int, struct sigaction> before;
  for (const int number : {SIGTERM, SIGINT, SIGABRT, SIGILL}) {
    struct sigaction ignored {};
    ignored.sa_handler = SIG_IGN;
    ASSERT_EQ(::sigaction(number, &ignored, &before[number]), 0);
  }
  start(2);
  for (const auto& [number, action] : before) {
    struct sigaction after {};
    ASSERT_EQ(::sigaction(number, &action, &after), 0);
    EXPECT_EQ(after.sa_handler, SIG_IGN) << number;
  }
}

TEST(SignalKeeper, LeavesWhatTheUserHasSetMeanwhile) {
  struct sigaction own {};
  own.sa_handler = [](int) {};
  struct sigaction before {};
  {
    const SignalKeeper signals;
    ASSERT_EQ(::sigaction(SIGHUP, &own, &before), 0);
  }
  struct sigaction after {};
  ASSERT_EQ(::sigaction(SIGHUP, &before, &after), 0);
  EXPECT_EQ(after.sa_handler, own.sa_handler);
}

TEST_P(FabricTransportTest, LeavesNoNamesOnceAllKnowEachOther) {
  const auto names = [] {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
      const std::string name = entry.path().filename();
      count += name.find(fmt::format("-{}-", ::getpid())) != std::string::npos ? 1 : 0;
    }
    return count;
  };
  start(3);
  EXPECT_EQ(names(), 0U);
  send(0, 1, pattern(50'000, 1), {.sequence = 1, .signature = {}});
  std::jthread sender([&] { send_out(0); });
  ASSERT_NE(receive(1, 0), nullptr);
  EXPECT_EQ(names(), 0U);
}

TEST(FabricTransport, WhatIsNoMessageIsAFaultThatNamesThePeer) {
  FabricRanks ranks("tcp;ofi_rxm", 2);
  auto stranger = FabricEndpoint::open(FabricProvider::find("tcp;ofi_rxm", "127.0.0.1").value(), 1);
  ASSERT_TRUE(stranger) << stranger.error().message;
  ASSERT_TRUE((*stranger)->add_peers({ranks.address(0)}));
  FabricMemory memory = (*stranger)->allocate(100).value();
  std::ranges::fill(memory.bytes, std::byte{'G'});
  memory.bytes = memory.bytes.first(100);
  FabricRequest request;
  bool is_sent = false;
  std::vector<Completion> done;
  const auto tag = tag_of(world_of_tag(testing::kFabricSecret), TagKind::kMessage, 1, 0);
  const auto end = steady_clock::now() + seconds(20);
  FabricRanks::Rank& zero = ranks.at(0);
  while (!zero.fault.is_raised() && steady_clock::now() < end) {
    is_sent = is_sent || (*stranger)->try_send(0, tag, memory, request).value();
    ASSERT_TRUE((*stranger)->poll(done));
    ASSERT_EQ(zero.transport->try_receive(1, {}), nullptr);
    zero.transport->wait(Patience::kSleep, kTurn);
  }
  ASSERT_TRUE(zero.fault.is_raised());
  EXPECT_EQ(zero.fault.error().code, Code::kCorrupt);
  EXPECT_THAT(zero.fault.error().message, HasSubstr("in the name of rank 1 is no message"));
}

TEST(FabricProvider, ThatIsNotThereIsNamed) {
  const auto found = FabricProvider::find("opx", "");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::kNotFound);
  EXPECT_THAT(found.error().message, HasSubstr("has no provider \"opx\" for this machine"));
  EXPECT_THAT(found.error().message, Not(HasSubstr("FI_PROVIDER")));
  EXPECT_THAT(FabricProvider::find("opx", "", "efa").error().message,
              HasSubstr("; FI_PROVIDER=efa leaves others out"));
}

TEST(FabricProvider, SaysWhereItIsWhenItIsNotAtAnAddress) {
  const auto found = FabricProvider::find("tcp;ofi_rxm", "192.0.2.7");
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("at 192.0.2.7: it is at "));
  EXPECT_THAT(found.error().message, HasSubstr("127.0.0.1"));
}

TEST(FabricSurvey, FindsTheProvidersThatNeedNoHardware) {
  const auto survey = survey_fabric();
  ASSERT_TRUE(survey) << survey.error().message;
  EXPECT_THAT(survey->providers, ::testing::IsSupersetOf({"tcp;ofi_rxm", "shm"}));
}

TEST(Tag, TellsWorldsKindsRanksAndNumbersApart) {
  const auto tag = tag_of(5, TagKind::kMessage, 3, 9);
  EXPECT_NE(tag, tag_of(6, TagKind::kMessage, 3, 9));
  EXPECT_NE(tag, tag_of(5, TagKind::kCredit, 3, 9));
  EXPECT_NE(tag, tag_of(5, TagKind::kMessage, 4, 9));
  EXPECT_NE(tag, tag_of(5, TagKind::kMessage, 3, 10));
  EXPECT_EQ(tag_of(5, TagKind::kMessage, kMaxTagRanks - 1, 0x3f'ffff),
            (5ULL << 40) | 0x3f'ffff'ffffULL);
  EXPECT_EQ(tag, tag_of(5, TagKind::kMessage, 3, 9 + (1U << 22)));  // numbers come round
}

}  // namespace
}  // namespace trainyard::comm
