// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/shm/segment.h"

#include <cstring>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace trainyard::comm {
namespace {

using testing::Each;
using testing::HasSubstr;

Segment make_segment(std::uint32_t world) {
  return *Segment::create(default_shape(world));
}

TEST(Segment, ShowsTheSameMemoryToAllThatMapIt) {
  const Segment one = make_segment(3);
  const Segment other = *Segment::map(Fd(dup(one.fd())));
  EXPECT_EQ(other.shape(), one.shape());
  one.pool(2)[5] = std::byte{1};
  one.entries(0, 2)[1].length = 2;
  one.board(1).note_started(3);
  EXPECT_EQ(other.pool(2)[5], std::byte{1});
  EXPECT_EQ(other.entries(0, 2)[1].length, 2U);
  EXPECT_EQ(other.board(1).started(), 3U);
}

// Every part is filled with its own number; if two overlapped, one would be found spoilt.
TEST(Segment, GivesEveryRankItsOwnPartOfEverything) {
  const Segment segment = make_segment(5);
  const SegmentShape& shape = segment.shape();
  const auto each_part = [&](const auto& touch) {
    for (std::uint32_t rank = 0; rank < shape.world; ++rank) {
      touch(segment.pool(rank));
      touch(std::as_writable_bytes(std::span(&segment.bell(rank), 1)));
      touch(std::as_writable_bytes(std::span(&segment.board(rank), 1)));
      for (std::uint32_t to = 0; to < shape.world; ++to) {
        touch(std::as_writable_bytes(std::span(segment.entries(rank, to), shape.depth)));
        touch(std::as_writable_bytes(std::span(&segment.consumed(rank, to), 1)));
      }
    }
    touch(std::as_writable_bytes(std::span(&segment.probe(), 1)));
    touch(segment.probe_buffer());
  };
  int number = 0;
  each_part([&](std::span<std::byte> part) { std::memset(part.data(), ++number, part.size()); });
  number = 0;
  each_part([&](std::span<std::byte> part) {
    const auto mine = static_cast<std::byte>(++number);
    EXPECT_EQ(std::count(part.begin(), part.end(), mine), static_cast<long>(part.size()));
  });
  EXPECT_TRUE(Segment::map(Fd(dup(segment.fd()))).has_value());  // the header is whole
}

class DefaultShape : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Worlds, DefaultShape, testing::Values(1, 2, 3, 4, 5, 8, 17, 64, 256));

TEST_P(DefaultShape, HasRoomForARingAndAnAllToAll) {
  const SegmentShape shape = default_shape(GetParam());
  const std::uint64_t messages = std::max<std::uint64_t>(2 * (GetParam() - 1), 1);
  EXPECT_GE(shape.large_lane - shape.max_message,
            messages * (shape.max_message + Transport::kMessageCost));
  EXPECT_GE(shape.depth, 4 * GetParam());
  EXPECT_LE(shape.large_lane, std::uint64_t{5} << 20);
  EXPECT_TRUE(Segment::create(shape).has_value());
}

// Of address space, and of memory before anyone touches it.
TEST(Segment, IsBoundedInTheLargestWorld) {
  const Segment segment = make_segment(SegmentShape::kMaxWorld);
  struct stat status {};
  ASSERT_EQ(::fstat(segment.fd(), &status), 0);
  EXPECT_LT(status.st_size, std::int64_t{5300} << 20);
  EXPECT_LT(status.st_blocks * 512, 1 << 20);
}

TEST(Segment, IsNotMadeInAnImpossibleShape) {
  SegmentShape no_ranks = default_shape(2);
  no_ranks.world = 0;
  SegmentShape odd_depth = default_shape(2);
  odd_depth.depth = 33;
  SegmentShape long_messages = default_shape(2);
  long_messages.max_message = 2 * long_messages.large_lane;
  for (const SegmentShape& shape : {no_ranks, odd_depth, long_messages}) {
    EXPECT_EQ(Segment::create(shape).error().code, Code::kInvalidArgument);
  }
}

TEST(Segment, IsNotMappedWhenItIsSomethingElse) {
  EXPECT_EQ(Segment::map(Fd(memfd_create("other", 0))).error().code, Code::kInvalidArgument);
  EXPECT_EQ(Segment::map(Fd()).error().code, Code::kInvalidArgument);
  const SharedMemory zeros = *SharedMemory::create("zeros", 1 << 20);
  EXPECT_EQ(Segment::map(Fd(dup(zeros.fd()))).error().code, Code::kCorrupt);
}

TEST(Segment, OfAnotherVersionIsRefusedWithBoth) {
  const Segment segment = make_segment(2);
  const std::uint32_t version = 77;
  ASSERT_EQ(pwrite(segment.fd(), &version, sizeof(version), 8), 4);
  const Error error = Segment::map(Fd(dup(segment.fd()))).error();
  EXPECT_EQ(error.code, Code::kConflict);
  EXPECT_THAT(error.message, HasSubstr("version 77, this process 4"));
}

TEST(Segment, SmallerThanItSaysIsRefused) {
  const Segment segment = make_segment(2);
  const SharedMemory part = *SharedMemory::create("part", 4096);
  ASSERT_EQ(pread(segment.fd(), part.bytes().data(), 4096, 0), 4096);
  EXPECT_EQ(Segment::map(Fd(dup(part.fd()))).error().code, Code::kCorrupt);
}

TEST(SharedMemory, CannotBeShrunkUnderItsUsers) {
  const SharedMemory memory = *SharedMemory::create("memory", 10'000);
  EXPECT_EQ(memory.bytes().size() % 4096, 0U);
  EXPECT_THAT(memory.bytes(), Each(std::byte{0}));
  EXPECT_NE(ftruncate(memory.fd(), 0), 0);
}

Signature signature_of(std::uint64_t n) {
  return {.kind = OpKind::kBroadcast, .root = static_cast<std::int32_t>(n), .count = n * 3};
}

TEST(Board, RemembersTheLastOperations) {
  Board board;
  for (std::uint64_t n = 1; n <= 100; ++n) {
    board.note_issued(n, signature_of(n));
  }
  EXPECT_EQ(board.issued(), 100U);
  EXPECT_EQ(board.signature_of(100), signature_of(100));
  EXPECT_EQ(board.signature_of(37), signature_of(37));
  EXPECT_EQ(board.signature_of(36), std::nullopt);
  EXPECT_EQ(board.signature_of(101), std::nullopt);
  EXPECT_EQ(board.signature_of(0), std::nullopt);
}

TEST(Board, KeepsFlagsApart) {
  Board board;
  board.raise(Board::kLeft);
  EXPECT_TRUE(board.has(Board::kLeft));
  EXPECT_FALSE(board.has(Board::kAttached));
}

TEST(Board, IsNeverReadHalfWritten) {
  constexpr std::uint64_t kLast = 200'000;
  Board board;
  std::jthread writer([&] {
    for (std::uint64_t n = 1; n <= kLast; ++n) {
      board.note_issued(n, signature_of(n));
    }
  });
  for (std::uint64_t n = 0; n < kLast; n = board.issued()) {
    const std::optional<Signature> seen = board.signature_of(n);
    ASSERT_TRUE(!seen || *seen == signature_of(n)) << n;
  }
}

}  // namespace
}  // namespace trainyard::comm
