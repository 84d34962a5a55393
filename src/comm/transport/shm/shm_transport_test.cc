// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/shm/shm_transport.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "testing/shm_ranks.h"

namespace trainyard::comm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

Label label_of(std::uint64_t sequence) {
  return {.sequence = sequence, .signature = {.kind = OpKind::kAllReduce, .count = 10 * sequence}};
}

bool try_send(Transport& from, std::vector<std::int32_t> to, std::size_t bytes, std::uint64_t n) {
  const std::span<std::byte> place = from.try_reserve(to, bytes);
  if (place.data() == nullptr) {
    return false;
  }
  std::fill(place.begin(), place.end(), static_cast<std::byte>(n));
  from.publish(to, label_of(n));
  return true;
}

// The message `n` of `bytes` bytes, as try_send() made it, is the oldest one, and is released.
testing::AssertionResult gets(Transport& to, std::int32_t from, std::size_t bytes,
                              std::uint64_t n) {
  const Inbound* const got = to.try_receive(from, {});
  if (got == nullptr) {
    return testing::AssertionFailure() << "nothing from " << from;
  }
  const bool is_right = got->label == label_of(n) && got->bytes.size() == bytes &&
                        std::all_of(got->bytes.begin(), got->bytes.end(),
                                    [n](std::byte b) { return b == static_cast<std::byte>(n); });
  to.release(from);
  return is_right ? testing::AssertionSuccess()
                  : testing::AssertionFailure() << "another message than " << n;
}

void send(Transport& from, const std::vector<std::int32_t>& to, std::size_t bytes, std::uint64_t n,
          Patience patience) {
  while (!try_send(from, to, bytes, n)) {
    from.wait(patience, seconds(5));
  }
}

bool waits_for(Transport& to, std::int32_t from, Patience patience) {
  const Clock::time_point end = Clock::now() + seconds(20);
  while (to.try_receive(from, {}) == nullptr && Clock::now() < end) {
    to.wait(patience, seconds(5));
  }
  return to.try_receive(from, {}) != nullptr;
}

TEST(ShmTransport, DeliversMessagesOfAllSizesInOrder) {
  ShmRanks ranks(2);
  const std::vector<std::size_t> sizes = {0, 1, 24, 25, 64, 4096, 8192, 8193, 128 << 10};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    ASSERT_TRUE(try_send(ranks[0], {1}, sizes[i], i + 1)) << sizes[i];
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_TRUE(gets(ranks[1], 0, sizes[i], i + 1)) << sizes[i];
  }
  EXPECT_EQ(ranks[1].try_receive(0, {}), nullptr);
}

TEST(ShmTransport, WritesAMulticastOnceForAllItsReaders) {
  ShmRanks ranks(4);
  ASSERT_TRUE(try_send(ranks[2], {0, 1, 3}, 1000, 7));
  const std::byte* const first = ranks[0].try_receive(2, {})->bytes.data();
  EXPECT_EQ(ranks[1].try_receive(2, {})->bytes.data(), first);
  EXPECT_EQ(ranks[3].try_receive(2, {})->bytes.data(), first);
}

TEST(ShmTransport, NamesPeersByTheirRanksInTheCommunicator) {
  auto segment = std::make_shared<const Segment>(*Segment::create(default_shape(2)));
  Fault fault;
  HeapRegistry heaps;
  const ShmOptions options = {.index = 0, .ranks = {6, 3}};
  auto six = *ShmTransport::create(segment, options, fault, heaps);
  auto three = *ShmTransport::create(segment, {.index = 1, .ranks = {6, 3}}, fault, heaps);
  ASSERT_TRUE(try_send(*six, {3}, 5, 1));
  EXPECT_TRUE(gets(*three, 6, 5, 1));
}

TEST(ShmTransport, RefusesWhenTheReceiverHasNotMadeRoomAndSendsAfterIt) {
  ShmRanks ranks(2);
  std::uint64_t sent = 0;
  while (try_send(ranks[0], {1}, ranks[0].max_message(), sent + 1)) {
    ++sent;
  }
  EXPECT_GE(sent, 2U);
  EXPECT_TRUE(gets(ranks[1], 0, ranks[0].max_message(), 1));
  EXPECT_TRUE(try_send(ranks[0], {1}, ranks[0].max_message(), sent + 1));
}

TEST(ShmTransport, HasAsMuchRoomAsItSaysForMessagesOfOddSizes) {
  ShmRanks ranks(4);
  std::uint64_t number = 0;
  std::uint64_t released = 0;
  for (const std::size_t bytes : {100'000U, 77'777U, 131'072U, 52'345U, 64'001U}) {
    const std::size_t count = ranks[0].room() / (bytes + Transport::kMessageCost);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_TRUE(try_send(ranks[0], {3}, bytes, ++number)) << bytes << " " << i;
    }
    while (released < number) {
      ASSERT_TRUE(gets(ranks[3], 0, bytes, ++released));
    }
  }
}

TEST(ShmTransport, KeepsTheMessageOfTheSlowestReader) {
  ShmRanks ranks(3);
  const std::size_t bytes = ranks[0].max_message();
  std::uint64_t sent = 0;
  while (try_send(ranks[0], {1, 2}, bytes, sent + 1)) {
    ++sent;
  }
  for (std::uint64_t n = 1; n <= sent; ++n) {
    ASSERT_TRUE(gets(ranks[1], 0, bytes, n));
  }
  EXPECT_FALSE(try_send(ranks[0], {1}, bytes, sent + 1));
  EXPECT_TRUE(gets(ranks[2], 0, bytes, 1));
  EXPECT_TRUE(try_send(ranks[0], {1}, bytes, sent + 1));
}

TEST(ShmTransport, TakesBackWhatWasReservedAndNotPublished) {
  ShmRanks ranks(2);
  const std::vector<std::int32_t> to = {1};
  for (int i = 0; i < 1000; ++i) {
    ASSERT_NE(ranks[0].try_reserve(to, ranks[0].max_message()).data(), nullptr);
  }
  ASSERT_TRUE(try_send(ranks[0], to, 100, 1));
  EXPECT_TRUE(gets(ranks[1], 0, 100, 1));
}

// `bytes` of a new heap of rank 0, which rank 1 knows, too.
std::span<std::byte> shared_buffer(ShmRanks& ranks, std::size_t bytes) {
  const HeapRegistry::Made made = *ranks.heaps(0).make(bytes);
  EXPECT_TRUE(ranks.heaps(1).add_peers(0, made.heap, Fd(dup(made.fd))));
  return made.memory->bytes();
}

TEST(ShmTransport, SendsFromAHeapInPlace) {
  ShmRanks ranks(2);
  const std::vector<std::int32_t> to = {1};
  const std::span<std::byte> buffer = shared_buffer(ranks, 1 << 20).subspan(5000, 500'000);
  std::fill(buffer.begin(), buffer.end(), std::byte{1});
  ASSERT_TRUE(ranks[0].can_send_in_place(to, buffer));
  Ticket ticket = 0;
  ASSERT_TRUE(ranks[0].try_send_in_place(to, label_of(1), buffer, &ticket));
  EXPECT_FALSE(ranks[0].is_sent(ticket));
  EXPECT_TRUE(gets(ranks[1], 0, 500'000, 1));
  EXPECT_TRUE(ranks[0].is_sent(ticket));
}

// As by a send in pieces that has met its deadline.
TEST(ShmTransport, KeepsWhatIsUnderWayInAHeapWhenItGivesUp) {
  ShmRanks ranks(2);
  const std::vector<std::int32_t> to = {1};
  const std::span<std::byte> buffer = shared_buffer(ranks, 100'000);
  std::ranges::fill(buffer, std::byte{1});
  Ticket ticket = 0;
  ASSERT_TRUE(ranks[0].try_send_in_place(to, label_of(1), buffer, &ticket));
  ranks.fault().raise(Error{Code::kDeadline, "too late"});
  EXPECT_FALSE(ranks[1].has_given_up(0));
  ranks[0].give_up();
  std::ranges::fill(buffer, std::byte{7});
  EXPECT_TRUE(ranks[1].has_given_up(0));
  EXPECT_TRUE(gets(ranks[1], 0, buffer.size(), 1));
}

// An operation that is under way meanwhile has just been told that it can.
TEST(ShmTransport, SendsNothingFromAHeapAfterItHasGivenUp) {
  ShmRanks ranks(2);
  const std::vector<std::int32_t> to = {1};
  const std::span<std::byte> buffer = shared_buffer(ranks, 100'000);
  ranks.fault().raise(Error{Code::kDeadline, "too late"});
  ranks[0].give_up();
  EXPECT_FALSE(ranks[0].can_send_in_place(to, buffer));
  Ticket ticket = 0;
  EXPECT_FALSE(ranks[0].try_send_in_place(to, label_of(1), buffer, &ticket));
  EXPECT_EQ(ranks[1].try_receive(0, {}), nullptr);
}

TEST(ShmTransport, HoldsAMessageUntilItsHeapIsKnown) {
  ShmRanks ranks(2);
  const std::vector<std::int32_t> to = {1};
  const HeapRegistry::Made made = *ranks.heaps(0).make(8192);
  Ticket ticket = 0;
  ASSERT_TRUE(ranks[0].try_send_in_place(to, label_of(0), made.memory->bytes(), &ticket));
  EXPECT_EQ(ranks[1].try_receive(0, {}), nullptr);
  ASSERT_TRUE(ranks.heaps(1).add_peers(0, made.heap, Fd(dup(made.fd))));
  EXPECT_TRUE(gets(ranks[1], 0, 8192, 0));
}

TEST(ShmTransport, DoesNotSendPrivateMemoryInPlace) {
  ShmRanks ranks(2);
  const std::vector<std::byte> buffer(1 << 20);
  EXPECT_FALSE(ranks[0].can_send_in_place(std::vector<std::int32_t>{1}, buffer));
  EXPECT_EQ(ranks[0].window_of(buffer).heap, 0U);
}

TEST(ShmTransport, MapsAWindowOfAPeer) {
  ShmRanks ranks(2);
  const std::span<std::byte> buffer = shared_buffer(ranks, 100'000);
  std::byte* const seen = ranks[1].map(0, ranks[0].window_of(buffer.subspan(50'000, 8)));
  ASSERT_NE(seen, nullptr);
  *seen = std::byte{42};
  EXPECT_EQ(buffer[50'000], std::byte{42});
}

// The owner ends a buffer while a peer reads and writes it.
TEST(ShmTransport, KeepsMappedWhatIsInUse) {
  ShmRanks ranks(2);
  const std::vector<std::int32_t> to = {1};
  const std::span<std::byte> buffer = shared_buffer(ranks, 100'000);
  const Window window = ranks[0].window_of(buffer);
  std::byte* const seen = ranks[1].map(0, window);
  Ticket ticket = 0;
  ASSERT_TRUE(ranks[0].try_send_in_place(to, label_of(1), buffer, &ticket));
  const Inbound* const inbound = ranks[1].try_receive(0, {});
  ASSERT_NE(inbound, nullptr);
  ranks.heaps(1).forget_peers(0, window.heap);
  *seen = std::byte{7};
  EXPECT_EQ(inbound->bytes[0], std::byte{7});
  ranks[1].unmap();
  EXPECT_EQ(inbound->bytes[0], std::byte{7});
  ranks[1].release(0);
  EXPECT_EQ(ranks[1].map(0, window), nullptr);
}

TEST(ShmTransport, RaisesAFaultForAMessageThatPointsOutsideOfThePool) {
  ShmRanks ranks(2);
  ASSERT_TRUE(try_send(ranks[0], {1}, 1000, 1));
  ranks.segment().entries(0, 1)[1].where.offset = std::uint64_t{1} << 40;
  EXPECT_EQ(ranks[1].try_receive(0, {}), nullptr);
  ASSERT_TRUE(ranks.fault().is_raised());
  EXPECT_EQ(ranks.fault().error().code, Code::kCorrupt);
}

class Waiting : public testing::TestWithParam<std::tuple<Patience, bool>> {
 protected:
  Patience patience() const { return std::get<0>(GetParam()); }
  ShmRanks ranks_{default_shape(2), std::get<1>(GetParam())};
};
INSTANTIATE_TEST_SUITE_P(All, Waiting,
                         testing::Combine(testing::Values(Patience::kSpin, Patience::kSleep),
                                          testing::Bool()));

TEST_P(Waiting, EndsWithAMessageThatComesMuchLater) {
  std::jthread sender([&] {
    std::this_thread::sleep_for(milliseconds(20));
    try_send(ranks_[0], {1}, 10, 1);
  });
  const Clock::time_point start = Clock::now();
  EXPECT_TRUE(waits_for(ranks_[1], 0, patience()));
  EXPECT_LT(Clock::now() - start, seconds(4));
}

TEST_P(Waiting, EndsAtItsLimit) {
  EXPECT_EQ(ranks_[1].try_receive(0, {}), nullptr);
  const Clock::time_point start = Clock::now();
  ranks_[1].wait(patience(), milliseconds(30));
  EXPECT_GE(Clock::now() - start, milliseconds(29));
}

TEST_P(Waiting, IsEndedByWakeAlsoBeforeItBegins) {
  ranks_[1].wake();
  ranks_[1].wait(patience(), seconds(100));
  std::jthread waker([&] {
    std::this_thread::sleep_for(milliseconds(20));
    ranks_[1].wake();
  });
  ranks_[1].wait(patience(), seconds(100));
}

TEST_P(Waiting, IsEndedByAFault) {
  std::jthread other([&] {
    std::this_thread::sleep_for(milliseconds(20));
    ranks_.fault().raise({Code::kCancelled, "enough"});
    ranks_[1].wake();  // as the communicator does
  });
  ranks_[1].wait(patience(), seconds(100));
  EXPECT_TRUE(ranks_.fault().is_raised());
}

TEST_P(Waiting, ForRoomEndsWhenAMessageIsReleased) {
  const std::size_t bytes = ranks_[0].max_message();
  constexpr std::uint64_t kMessages = 50;
  std::jthread receiver([&] {
    for (std::uint64_t n = 1; n <= kMessages; ++n) {
      ASSERT_TRUE(waits_for(ranks_[1], 0, patience()));
      ASSERT_TRUE(gets(ranks_[1], 0, bytes, n));
    }
  });
  for (std::uint64_t n = 1; n <= kMessages; ++n) {
    send(ranks_[0], {1}, bytes, n, patience());
  }
}

TEST_P(Waiting, LosesNoWakeUpInAPingPong) {
  constexpr std::uint64_t kRounds = 100;
  ranks_.run([&](std::size_t rank, ShmTransport& transport) {
    const auto peer = static_cast<std::int32_t>(1 - rank);
    for (std::uint64_t n = 1; n <= kRounds; ++n) {
      if (rank == 0) {
        send(transport, {peer}, n % 100, n, patience());
      }
      ASSERT_TRUE(waits_for(transport, peer, patience()));
      ASSERT_TRUE(gets(transport, peer, n % 100, n));
      if (rank == 1) {
        send(transport, {peer}, n % 100, n, patience());
      }
    }
  });
}

TEST(ShmTransport, WaitIsNotEndedByAMessageThatNobodyAskedFor) {
  ShmRanks ranks(3);
  ASSERT_TRUE(try_send(ranks[0], {1}, 10, 1));
  EXPECT_EQ(ranks[1].try_receive(2, {}), nullptr);
  const Clock::time_point start = Clock::now();
  ranks[1].wait(Patience::kSpin, milliseconds(20));
  EXPECT_GE(Clock::now() - start, milliseconds(19));
}

TEST(ShmTransport, ManyRanksSendToAllAtOnce) {
  constexpr std::size_t kWorld = 5;
  ShmRanks ranks(kWorld);
  ranks.run([&](std::size_t rank, ShmTransport& transport) {
    std::vector<std::int32_t> others;
    for (std::size_t peer = 0; peer < kWorld; ++peer) {
      if (peer != rank) {
        others.push_back(static_cast<std::int32_t>(peer));
      }
    }
    for (std::uint64_t n = 1; n <= 40; ++n) {
      const std::size_t bytes = n * 97 % 20'000;
      send(transport, others, bytes, n, Patience::kSpin);
      for (const std::int32_t peer : others) {
        ASSERT_TRUE(waits_for(transport, peer, Patience::kSpin));
        ASSERT_TRUE(gets(transport, peer, bytes, n));
      }
    }
  });
}

}  // namespace
}  // namespace trainyard::comm
