// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/tcp/tcp_transport.h"

#include <functional>
#include <numeric>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::comm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;

constexpr microseconds kTurn{2000};
const std::string kSecret = "of this world";

// Ranks of one process, each with its own acceptor.
class TcpTransportTest : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  struct Rank {
    Fault fault;
    std::unique_ptr<Acceptor> acceptor;
    std::unique_ptr<TcpTransport> transport;
  };

  void start(std::int32_t size, std::size_t max_message = TcpOptions().max_message) {
    std::vector<DataAddress> addresses;
    std::vector<std::string> names;
    for (std::int32_t rank = 0; rank < size; ++rank) {
      ranks_.push_back(std::make_unique<Rank>());
      ranks_.back()->acceptor =
          std::make_unique<Acceptor>(*listen_tcp({"127.0.0.1", 0}), kSecret, rank);
      addresses.push_back({ranks_.back()->acceptor->port(), {"127.0.0.1"}});
      names.push_back("rank " + std::to_string(rank));
    }
    for (std::int32_t rank = 0; rank < size; ++rank) {
      Rank& one = at(rank);
      TcpOptions options;
      options.rank = rank;
      options.connections = GetParam();
      options.max_message = max_message;
      options.secret = kSecret;
      options.peers = addresses;
      options.names = names;
      one.transport = std::make_unique<TcpTransport>(options, *one.acceptor, one.fault);
    }
  }

  Rank& at(std::int32_t rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  TcpTransport& transport(std::int32_t rank) { return *at(rank).transport; }

  const Inbound* receive(std::int32_t rank, std::int32_t from, std::span<std::byte> into = {}) {
    const auto end = steady_clock::now() + seconds(20);
    while (steady_clock::now() < end && !at(rank).fault.is_raised()) {
      if (const Inbound* inbound = transport(rank).try_receive(from, into)) {
        return inbound;
      }
      transport(rank).wait(Patience::kSleep, kTurn);
    }
    return nullptr;
  }

  // Until all that was published has left.
  void send_out(std::int32_t rank) {
    const auto end = steady_clock::now() + seconds(20);
    while (!transport(rank).flush() && steady_clock::now() < end) {
      transport(rank).wait(Patience::kSleep, kTurn);
    }
  }

  std::vector<std::unique_ptr<Rank>> ranks_;
};

INSTANTIATE_TEST_SUITE_P(Connections, TcpTransportTest, ::testing::Values(1, 3));

std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    data[i] = static_cast<std::byte>((i * 7 + seed) & 0xff);
  }
  return data;
}

TEST_P(TcpTransportTest, MessagesOfAnySizeComeInOrder) {
  start(2);
  const std::vector<std::size_t> sizes = {0, 1, 31, 4096, 65537, 262144, 3, 262143, 0, 100000};
  std::jthread sender([&] {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const auto data = pattern(sizes[i], static_cast<unsigned>(i));
      const std::int32_t to = 1;
      std::span<std::byte> slot;
      while (slot.data() == nullptr) {
        slot = transport(0).try_reserve({&to, 1}, data.size());
      }
      std::ranges::copy(data, slot.begin());
      transport(0).publish({&to, 1}, {.sequence = i + 1, .signature = {.count = sizes[i]}});
    }
    while (!transport(0).flush()) {
      transport(0).wait(Patience::kSleep, kTurn);
    }
  });
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const Inbound* inbound = receive(1, 0);
    ASSERT_NE(inbound, nullptr);
    EXPECT_EQ(inbound->label.sequence, i + 1);
    EXPECT_EQ(inbound->label.signature.count, sizes[i]);
    EXPECT_TRUE(std::ranges::equal(inbound->bytes, pattern(sizes[i], static_cast<unsigned>(i))));
    transport(1).release(0);
  }
}

TEST_P(TcpTransportTest, BytesGoFromPlaceToPlace) {
  start(2);
  const auto data = pattern(262144, 5);
  std::vector<std::byte> out(data.size());
  std::jthread sender([&] {
    const std::int32_t to = 1;
    Ticket ticket = 0;
    ASSERT_TRUE(
        transport(0).try_send_in_place({&to, 1}, {.sequence = 1, .signature = {}}, data, &ticket));
    while (!transport(0).is_sent(ticket)) {
      transport(0).wait(Patience::kSleep, kTurn);
    }
  });
  const Inbound* inbound = receive(1, 0, out);
  ASSERT_NE(inbound, nullptr);
  EXPECT_EQ(inbound->bytes.data(), out.data());
  EXPECT_EQ(out, data);
}

TEST_P(TcpTransportTest, BothSidesMaySendMoreThanTheKernelHoldsAtOnce) {
  start(2);
  constexpr int kMessages = 200;
  const auto data = pattern(262144, 1);
  const auto run = [&](std::int32_t rank) {
    const std::int32_t peer = 1 - rank;
    Ticket ticket = 0;
    for (int i = 0; i < kMessages; ++i) {
      ASSERT_TRUE(transport(rank).try_send_in_place(
          {&peer, 1}, {.sequence = static_cast<std::uint64_t>(i), .signature = {}}, data, &ticket));
    }
    for (int i = 0; i < kMessages; ++i) {
      const Inbound* inbound = receive(rank, peer);
      ASSERT_NE(inbound, nullptr);
      ASSERT_TRUE(std::ranges::equal(inbound->bytes, data));
      transport(rank).release(peer);
    }
    while (!transport(rank).is_sent(ticket)) {
      transport(rank).wait(Patience::kSpin, kTurn);
    }
  };
  std::jthread other([&] { run(1); });
  run(0);
}

TEST_P(TcpTransportTest, OneMessageGoesToSeveral) {
  start(4);
  const std::vector<std::int32_t> all = {1, 2, 3};
  const auto slot = transport(0).try_reserve(all, 8);
  std::ranges::fill(slot, std::byte{9});
  transport(0).publish(all, {.sequence = 3, .signature = {}});
  send_out(0);
  for (const std::int32_t rank : all) {
    const Inbound* inbound = receive(rank, 0);
    ASSERT_NE(inbound, nullptr);
    EXPECT_EQ(inbound->bytes[7], std::byte{9});
  }
}

TEST_P(TcpTransportTest, WhatWasPublishedArrivesThoughItsSenderEnds) {
  start(2);
  constexpr int kMessages = 40;  // more than the kernel takes
  const std::int32_t to = 0;
  std::jthread sender([&] {
    for (int i = 0; i < kMessages; ++i) {
      std::span<std::byte> slot;
      while (slot.data() == nullptr) {
        slot = transport(1).try_reserve({&to, 1}, 262144);
      }
      transport(1).publish({&to, 1}, {.sequence = 1, .signature = {}});
    }
    at(1).transport.reset();
  });
  std::this_thread::sleep_for(milliseconds(50));
  for (int i = 0; i < kMessages; ++i) {
    ASSERT_NE(receive(0, 1), nullptr) << i;
    transport(0).release(1);
  }
}

TEST_P(TcpTransportTest, ABrokenConnectionIsAFaultThatNamesThePeer) {
  start(2);
  const std::int32_t to = 0;
  static_cast<void>(transport(1).try_reserve({&to, 1}, 1));
  transport(1).publish({&to, 1}, {.sequence = 1, .signature = {}});
  send_out(1);
  ASSERT_NE(receive(0, 1), nullptr);
  transport(0).release(1);
  at(1).transport.reset();
  EXPECT_EQ(receive(0, 1), nullptr);
  ASSERT_TRUE(at(0).fault.is_raised());
  EXPECT_THAT(at(0).fault.error().message, HasSubstr("the connection to rank 1 is broken"));
}

TEST_P(TcpTransportTest, APeerThatCannotBeReachedIsAFaultThatSaysWhatWasTried) {
  start(2);
  at(1).transport.reset();
  at(1).acceptor.reset();
  const std::int32_t to = 1;
  static_cast<void>(transport(0).try_reserve({&to, 1}, 1));
  transport(0).publish({&to, 1}, {.sequence = 1, .signature = {}});
  EXPECT_FALSE(transport(0).flush());  // the message has not left
  EXPECT_EQ(receive(0, 1), nullptr);
  EXPECT_THAT(at(0).fault.error().message, HasSubstr("127.0.0.1:"));
  EXPECT_TRUE(transport(0).flush());  // and never will: after a fault nothing goes out
}

TEST_P(TcpTransportTest, WhatOnlyLetsAPeerGoOnIsNotMissedWhenItHasLeft) {
  start(2);
  at(1).transport.reset();
  at(1).acceptor.reset();
  const std::int32_t to = 1;
  for (std::uint64_t i = 1; i <= 4; ++i) {
    static_cast<void>(transport(0).try_reserve({&to, 1}, 0));
    transport(0).publish_unneeded({&to, 1}, {.sequence = i, .signature = {}});
    send_out(0);
    EXPECT_TRUE(transport(0).flush());
  }
  EXPECT_FALSE(at(0).fault.is_raised());
}

// Of a message this long the kernel holds a part, which lies in the memory of the caller.
TEST_P(TcpTransportTest, WhatIsGivenUpDoesNotArriveAsWhatItBecame) {
  constexpr std::byte kAfter{0xee};
  constexpr std::size_t kBytes = std::size_t{8} << 20;
  start(2, kBytes);
  const auto before = pattern(kBytes, 3);
  auto data = before;
  const std::int32_t to = 1;
  Ticket ticket = 0;
  ASSERT_TRUE(
      transport(0).try_send_in_place({&to, 1}, {.sequence = 1, .signature = {}}, data, &ticket));
  std::jthread sender([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      transport(0).wait(Patience::kSleep, milliseconds(500));
    }
  });
  std::this_thread::sleep_for(milliseconds(200));  // the kernel takes no more by then

  at(0).fault.raise({Code::kDeadline, "too late"});
  transport(0).give_up();
  std::ranges::fill(data, kAfter);

  std::vector<std::byte> received(kBytes);
  EXPECT_EQ(receive(1, 0, received), nullptr);
  EXPECT_THAT(at(1).fault.peek().message, HasSubstr("the connection to rank 0 is broken"));
  const auto is_altered = [](std::byte got, std::byte sent) {
    return got == kAfter && sent != kAfter ? 1 : 0;
  };
  EXPECT_EQ(std::transform_reduce(received.begin(), received.end(), before.begin(), 0, std::plus(),
                                  is_altered),
            0);
}

// A peer that computes takes nothing for a while; its host acknowledges all the same.
TEST_P(TcpTransportTest, APeerThatReadsLateIsNoFault) {
  start(2);
  const auto data = pattern(262144, 3);
  const std::int32_t to = 1;
  Ticket ticket = 0;
  for (int i = 0; i < 60; ++i) {
    ASSERT_TRUE(
        transport(0).try_send_in_place({&to, 1}, {.sequence = 1, .signature = {}}, data, &ticket));
  }
  const auto end = steady_clock::now() + kSilence + milliseconds(1500);
  while (steady_clock::now() < end) {
    transport(0).wait(Patience::kSleep, milliseconds(100));
  }
  EXPECT_FALSE(at(0).fault.is_raised());
  std::jthread reader([&] {
    for (int i = 0; i < 60; ++i) {
      ASSERT_NE(receive(1, 0), nullptr);
      transport(1).release(0);
    }
  });
  const auto most = steady_clock::now() + seconds(20);
  while (!transport(0).is_sent(ticket) && steady_clock::now() < most) {
    transport(0).wait(Patience::kSleep, milliseconds(10));
  }
  EXPECT_TRUE(transport(0).is_sent(ticket));
}

TEST_P(TcpTransportTest, WakesFromAnotherThread) {
  start(2);
  std::jthread waker([&] { transport(0).wake(); });
  const auto start_time = steady_clock::now();
  static_cast<void>(transport(0).try_receive(1, {}));
  transport(0).wait(Patience::kSleep, seconds(10));
  EXPECT_LT(steady_clock::now() - start_time, seconds(5));
}

TEST(Acceptor, GivesNothingToStrangers) {
  Acceptor acceptor(*listen_tcp({"127.0.0.1", 0}), kSecret, 1);
  const auto try_to = [&](const Greeting& greeting) {
    return open_data_connection({"127.0.0.1"}, acceptor.port(), greeting, std::stop_token());
  };
  EXPECT_FALSE(try_to({.secret = "guessed", .from = 0, .to = 1}));
  EXPECT_FALSE(try_to({.secret = kSecret, .from = 0, .to = 2}));  // another process had the port
  EXPECT_FALSE(try_to({.secret = kSecret, .from = 0, .to = 1, .index = 1}));
  EXPECT_TRUE(acceptor.take(0).empty());
  EXPECT_TRUE(try_to({.secret = kSecret, .from = 0, .to = 1}));
  std::size_t taken = 0;  // the answer may come before the connection is handed on
  for (const auto end = steady_clock::now() + seconds(5);
       taken == 0 && steady_clock::now() < end;) {
    taken = acceptor.take(0).size();
  }
  EXPECT_EQ(taken, 1U);
}

TEST(Acceptor, ARankIsFoundBehindAddressesThatDoNotAnswer) {
  Acceptor acceptor(*listen_tcp({"127.0.0.1", 0}), kSecret, 1);
  const Greeting greeting{.secret = kSecret, .from = 0, .to = 1};
  EXPECT_TRUE(open_data_connection({"127.0.0.9", "127.0.0.1"}, acceptor.port(), greeting,
                                   std::stop_token()));
}

TEST(MessageHeader, ComesBackAndRefusesGarbage) {
  const MessageHeader header{
      .label = {.sequence = 77, .signature = {.kind = OpKind::kBroadcast, .root = 3, .count = 5}},
      .bytes = 12345};
  auto bytes = encode(header);
  EXPECT_EQ(decode_header(bytes)->label, header.label);
  EXPECT_EQ(decode_header(bytes)->bytes, header.bytes);
  bytes[0] = std::byte{'G'};
  EXPECT_FALSE(decode_header(bytes));
}

}  // namespace
}  // namespace trainyard::comm
