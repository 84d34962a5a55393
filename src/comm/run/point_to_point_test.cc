// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/run/mailbox.h"
#include "testing/comm_world.h"

namespace trainyard::comm {
namespace {

using ::testing::HasSubstr;
using testing::LocalWorld;
using testing::make_local_communicators;
using testing::make_shared_memory_communicators;

Operation send(std::span<const std::byte> bytes, std::int32_t to, std::uint32_t tag = 0) {
  return {.kind = OpKind::kSend,
          .dtype = DType::kU8,
          .input = bytes,
          .output = {},
          .root = to,
          .tag = tag,
          .counts = {},
          .receive_counts = {},
          .timeout = std::nullopt,
          .algorithm = std::nullopt};
}

Operation receive(std::span<std::byte> bytes, std::int32_t from, std::uint32_t tag = 0) {
  Operation operation = send({}, from, tag);
  operation.kind = OpKind::kReceive;
  operation.output = bytes;
  return operation;
}

std::vector<std::byte> pattern(std::size_t size, int seed) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(i * 31 + static_cast<std::size_t>(seed) * 17 + (i >> 8));
  }
  return bytes;
}

void wait_all(std::vector<Work>& works) {
  for (Work& work : works) {
    const auto done = work.wait();
    EXPECT_TRUE(done) << done.error().message;
  }
}

// Rank 0 sends what rank 1 receives, in one call each.
void carry(LocalWorld& world, std::size_t size) {
  testing::on_all_ranks(world, [&](Communicator& communicator) {
    std::vector<std::byte> bytes(size);
    if (communicator.rank() == 0) {
      bytes = pattern(size, 1);
      EXPECT_TRUE(communicator.run(send(bytes, 1)));
    } else {
      EXPECT_TRUE(communicator.run(receive(bytes, 0)));
      EXPECT_EQ(bytes, pattern(size, 1));
    }
  });
}

class Carries : public ::testing::TestWithParam<std::size_t> {};

TEST_P(Carries, CopyingEach) {
  LocalWorld world = make_local_communicators(2);
  carry(world, GetParam());
}

TEST_P(Carries, FromWhereTheBytesLie) {
  LocalWorld world = make_local_communicators(2, {.memory = {.stays_in_place = true}});
  carry(world, GetParam());
}

TEST_P(Carries, OverSharedMemory) {
  LocalWorld world = make_shared_memory_communicators(2);
  carry(world, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Sizes, Carries,
                         ::testing::Values(0, 1, 8191, 8192, 8193, 32768, 1'000'003));

TEST(PointToPoint, MatchesByTag) {
  LocalWorld world = make_local_communicators(2);
  testing::on_all_ranks(world, [](Communicator& communicator) {
    std::vector<std::byte> first = pattern(100, 1);
    std::vector<std::byte> second = pattern(20'000, 2);
    if (communicator.rank() == 0) {
      std::vector<Work> works = {communicator.issue(send(first, 1, 7)).value(),
                                 communicator.issue(send(second, 1, 9)).value()};
      wait_all(works);
    } else {
      std::vector<std::byte> got_second(20'000);
      std::vector<std::byte> got_first(100);
      EXPECT_TRUE(communicator.run(receive(got_second, 0, 9)));
      EXPECT_TRUE(communicator.run(receive(got_first, 0, 7)));
      EXPECT_EQ(got_first, first);
      EXPECT_EQ(got_second, second);
    }
  });
}

TEST(PointToPoint, KeepsTheOrderOfOneTag) {
  LocalWorld world = make_local_communicators(2);
  testing::on_all_ranks(world, [](Communicator& communicator) {
    // Small and large ones take different ways; more than there is credit for.
    const auto size = [](int i) { return static_cast<std::size_t>(i % 3 == 0 ? 30'000 : 10); };
    std::vector<std::vector<std::byte>> buffers;
    std::vector<Work> works;
    for (int i = 0; i < 200; ++i) {
      buffers.push_back(communicator.rank() == 0 ? pattern(size(i), i)
                                                 : std::vector<std::byte>(size(i)));
    }
    for (auto& buffer : buffers) {
      works.push_back(
          communicator.issue(communicator.rank() == 0 ? send(buffer, 1, 5) : receive(buffer, 0, 5))
              .value());
    }
    wait_all(works);
    for (int i = 0; i < 200; ++i) {
      EXPECT_EQ(buffers[static_cast<std::size_t>(i)], pattern(size(i), i)) << i;
    }
  });
}

TEST(PointToPoint, RunsInBothDirectionsAtOnce) {
  LocalWorld world = make_local_communicators(3);
  testing::on_all_ranks(world, [](Communicator& communicator) {
    const std::int32_t rank = communicator.rank();
    std::vector<std::vector<std::byte>> out;
    std::vector<std::vector<std::byte>> in;
    std::vector<Work> works;
    for (std::int32_t peer = 0; peer < 3; ++peer) {
      out.push_back(pattern(100'000, rank * 3 + peer));
      in.emplace_back(100'000);
    }
    for (std::int32_t peer = 0; peer < 3; ++peer) {
      const auto at = static_cast<std::size_t>(peer);
      works.push_back(communicator.issue(send(out[at], peer)).value());
      works.push_back(communicator.issue(receive(in[at], peer)).value());
    }
    wait_all(works);
    for (std::int32_t peer = 0; peer < 3; ++peer) {
      EXPECT_EQ(in[static_cast<std::size_t>(peer)], pattern(100'000, peer * 3 + rank));
    }
  });
}

TEST(PointToPoint, BoundsWhatWaitsUnasked) {
  LocalWorld world = make_local_communicators(2);
  const std::vector<std::byte> bytes = pattern(64, 1);
  std::vector<Work> works;
  for (std::uint64_t i = 0; i < Mailbox::kCredit + 1; ++i) {
    works.push_back(world[0].issue(send(bytes, 1)).value());
  }
  for (std::uint64_t i = 0; i < Mailbox::kCredit; ++i) {
    EXPECT_TRUE(works[i].wait());
  }
  EXPECT_FALSE(works.back().is_done());  // waits until it is asked for
  std::vector<std::byte> got(64);
  for (std::uint64_t i = 0; i < Mailbox::kCredit + 1; ++i) {
    EXPECT_TRUE(world[1].run(receive(got, 0)));
  }
  EXPECT_TRUE(works.back().wait());
}

TEST(PointToPoint, SendsToItself) {
  LocalWorld world = make_local_communicators(1);
  for (const std::size_t size : {std::size_t{10}, std::size_t{50'000}}) {
    const std::vector<std::byte> out = pattern(size, 3);
    std::vector<std::byte> in(size);
    Work sent = world[0].issue(send(out, 0, 4)).value();
    EXPECT_TRUE(world[0].run(receive(in, 0, 4)));
    EXPECT_TRUE(sent.wait());
    EXPECT_EQ(in, out);
  }
}

TEST(PointToPoint, RunsBesideCollectives) {
  LocalWorld world = make_shared_memory_communicators(2);
  testing::on_all_ranks(world, [](Communicator& communicator) {
    std::vector<std::byte> bytes = pattern(300'000, 1);
    std::vector<Work> works;
    works.push_back(
        communicator.issue(communicator.rank() == 0 ? send(bytes, 1) : receive(bytes, 0)).value());
    for (int i = 0; i < 50; ++i) {
      EXPECT_TRUE(communicator.run({.kind = OpKind::kBarrier,
                                    .input = {},
                                    .output = {},
                                    .counts = {},
                                    .receive_counts = {},
                                    .timeout = std::nullopt,
                                    .algorithm = std::nullopt}));
    }
    wait_all(works);
  });
}

// The two sides of one message differ; both hear of it.
void expect_conflict(Operation sent, Operation received, const std::string& text) {
  LocalWorld world = make_local_communicators(2);
  testing::on_all_ranks(world, [&](Communicator& communicator) {
    Work work = communicator.issue(communicator.rank() == 0 ? sent : received).value();
    const auto done = work.wait();
    if (!done) {
      EXPECT_EQ(done.error().code, Code::kConflict);
      EXPECT_THAT(done.error().message, HasSubstr(text));
    }
    EXPECT_TRUE(!done || communicator.rank() == 0);  // a small one may be gone already
  });
}

TEST(PointToPoint, RefusesOtherSizes) {
  std::vector<std::byte> bytes(50'000);
  const std::span<std::byte> all(bytes);
  expect_conflict(send(all.first(100), 1, 3), receive(all.first(99), 0, 3),
                  "rank 1 has a receive of 99 uint8 from rank 0 with tag 3; rank 0 has 100 uint8 "
                  "for it");
  expect_conflict(send(all, 1, 3), receive(all.first(99), 0, 3), "rank 0 has 50000 uint8 for it");
}

TEST(PointToPoint, RefusesOtherDTypes) {
  std::vector<std::byte> bytes(400);
  Operation floats = receive(bytes, 0);
  floats.dtype = DType::kF32;
  expect_conflict(send(std::span(bytes).first(100), 1), floats,
                  "receive of 100 float32 from rank 0 with tag 0; rank 0 has 100 uint8");
}

TEST(PointToPoint, NamesThePeerThatDoesNotCome) {
  LocalWorld world = make_local_communicators(2);
  std::vector<std::byte> bytes(50'000);
  Operation operation = send(bytes, 1, 6);
  operation.timeout = std::chrono::milliseconds(30);
  const auto done = world[0].run(operation);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kDeadline);
  EXPECT_EQ(done.error().message,
            "send of 50000 uint8 to rank 1 with tag 6 on rank 0 of 'world' took longer than 30 ms; "
            "rank 1 has not received it");
}

// The one that waits first moves the messages of both.
TEST(PointToPoint, WakesAWaitingThreadWhoseMessageAnotherOneMoved) {
  LocalWorld world = make_local_communicators(2);
  std::vector<std::byte> late(100);
  std::vector<std::byte> early(100);
  Work last = world[0].issue(receive(late, 1, 1)).value();
  Work first = world[0].issue(receive(early, 1, 2)).value();
  std::jthread driving([&] { EXPECT_TRUE(last.wait()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  std::atomic<bool> is_through = false;
  std::jthread waiting([&] {
    EXPECT_TRUE(first.wait());
    is_through = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_TRUE(world[1].run(send(pattern(100, 2), 0, 2)));
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (!is_through && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(is_through);
  EXPECT_FALSE(last.is_done());
  EXPECT_TRUE(world[1].run(send(pattern(100, 1), 0, 1)));
}

TEST(PointToPoint, EndsAfterAFaultThoughItsMessagesCannotLeave) {
  LocalWorld world = make_local_communicators(2, {.memory = {.holds_back = true}});
  std::vector<std::byte> bytes(100);
  Work work = world[0].issue(receive(bytes, 1)).value();
  world[1].abort("enough");
  EXPECT_EQ(work.wait().error().code, Code::kCancelled);
  testing::end_all_ranks(world);
}

// As a rank that fails, and ends its group on the way out, while the other one waits for it.
void expect_given_up(const Operation& open, const std::string& what) {
  LocalWorld world = make_local_communicators(2);
  std::vector<std::byte> bytes(8);
  Work work = world[0].issue(open).value();
  std::jthread waiting([&] {
    const auto done = world[1].run(receive(bytes, 0, 5));
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Code::kCancelled);
    EXPECT_EQ(done.error().message, "rank 0 has left 'world' with a " + what + " open");
  });
  const auto begin = std::chrono::steady_clock::now();
  world.ranks[0].reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_EQ(work.wait().error().code, Code::kCancelled);
}

TEST(PointToPoint, GivesUpAReceiveThatNobodySendsWhenItEnds) {
  std::vector<std::byte> bytes(8);
  expect_given_up(receive(bytes, 1), "receive of 8 uint8 from rank 1 with tag 0");
}

TEST(PointToPoint, GivesUpASendThatNobodyAsksForWhenItEnds) {
  const std::vector<std::byte> bytes(50'000);
  expect_given_up(send(bytes, 1), "send of 50000 uint8 to rank 1 with tag 0");
}

TEST(PointToPoint, FinishesWhatWasIssuedBeforeItEnds) {
  std::vector<std::byte> out = pattern(100'000, 1);
  std::vector<std::byte> in(100'000);
  LocalWorld world = make_local_communicators(2);
  std::vector<Work> works = {world[0].issue(send(out, 1)).value(),
                             world[1].issue(receive(in, 0)).value()};
  testing::end_all_ranks(world);
  wait_all(works);
  EXPECT_EQ(in, out);
}

}  // namespace
}  // namespace trainyard::comm
