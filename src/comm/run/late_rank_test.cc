// SPDX-License-Identifier: Apache-2.0
// A rank that comes late, or goes on late, when the others have given the operation up: it neither
// changes buffers that their owners have back, nor takes for a result what these hold since.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testing/comm_world.h"

namespace trainyard::comm {
namespace {

using std::chrono::milliseconds;
using ::testing::Contains;
using ::testing::Each;
using testing::LocalWorld;
using testing::make_local_communicators;
using testing::make_shared_memory_communicators;
using ::testing::Not;
using testing::WorldOptions;

constexpr std::byte kOld{1};
constexpr std::byte kNew{7};

// Memory that all ranks map, in two halves: rank 0 writes the first one of both in an all-reduce.
struct Buffer {
  Buffer(Communicator& of, std::size_t size) : memory(of.allocate(size).value()), bytes(size) {
    std::ranges::fill(all(), kOld);
  }
  std::span<std::byte> all() const { return {memory.get(), bytes}; }
  std::span<std::byte> first() const { return all().first(bytes / 2); }

  std::shared_ptr<std::byte[]> memory;
  std::size_t bytes;
};

Operation sum_of(const Buffer& buffer) {
  Operation operation;
  operation.kind = OpKind::kAllReduce;
  operation.dtype = DType::kU8;
  operation.reduce = ReduceOp::kSum;
  operation.output = buffer.all();
  operation.algorithm = Algorithm::kWindow;
  return operation;
}

Operation broadcast_of(std::span<std::byte> bytes) {
  Operation operation;
  operation.kind = OpKind::kBroadcast;
  operation.dtype = DType::kU8;
  operation.root = 0;
  operation.output = bytes;
  return operation;
}

void expect_to_keep_what_is_written_after_the_deadline(LocalWorld world) {
  const Buffer late(world[0], 64 << 10);
  const Buffer early(world[1], 64 << 10);
  EXPECT_EQ(world[1].run(sum_of(early)).error().code, Code::kDeadline);
  std::ranges::fill(early.all(), kNew);

  EXPECT_FALSE(world[0].run(sum_of(late)));

  EXPECT_THAT(early.all(), Each(kNew));
}

TEST(LateRank, LeavesSharedBuffersToTheirOwners) {
  expect_to_keep_what_is_written_after_the_deadline(
      make_shared_memory_communicators(2, {.timeout = milliseconds(10), .spreads = false}));
}

// Also where memory cannot be withdrawn from it.
TEST(LateRank, SeesThatOthersHaveGivenUpBeforeItWrites) {
  expect_to_keep_what_is_written_after_the_deadline(
      make_local_communicators(2, {.timeout = milliseconds(10), .spreads = false}));
}

TEST(LateRank, GetsOnlyWhatWasSentNotWhatIsWrittenThereLater) {
  LocalWorld world =
      make_shared_memory_communicators(2, {.timeout = milliseconds(10), .spreads = false});
  const Buffer source(world[0], 8 << 10);
  EXPECT_EQ(world[0].run(broadcast_of(source.all())).error().code, Code::kDeadline);
  std::ranges::fill(source.all(), kNew);

  std::vector<std::byte> got(source.bytes);
  static_cast<void>(world[1].run(broadcast_of(got)));

  EXPECT_THAT(got, Not(Contains(kNew)));
}

// Rank 0 hears of the fault when it has met rank 1 and has not yet written.
TEST(LateRank, WritesNothingAfterAFault) {
  LocalWorld world;
  WorldOptions options{.spreads = false};
  options.memory.mapped = [&](std::int32_t rank) {
    if (rank == 0) {
      world[0].abort("enough");
    }
  };
  world = make_local_communicators(2, options);
  const Buffer late(world[0], 64 << 10);
  const Buffer other(world[1], 64 << 10);
  std::jthread waiting([&] { EXPECT_FALSE(world[1].run(sum_of(other))); });

  EXPECT_FALSE(world[0].run(sum_of(late)));

  EXPECT_THAT(other.first(), Each(kOld));
  world[1].abort("enough");
}

// Peers may still have written to memory that its owner had left.
TEST(LateRank, TakesNothingForAResultThatCameAfterAFault) {
  LocalWorld world;
  WorldOptions options{.spreads = false};
  options.memory.unmapped = [&](std::int32_t rank) {
    if (rank == 0) {
      world[0].abort("enough");
    }
  };
  world = make_local_communicators(2, options);
  testing::on_all_ranks(world, [](Communicator& communicator) {
    const Buffer buffer(communicator, 64 << 10);
    EXPECT_EQ(communicator.run(sum_of(buffer)).has_value(), communicator.rank() == 1);
  });
}

TEST(LateRank, IsNotTheParentOfAChildThatAborts) {
  LocalWorld world = make_shared_memory_communicators(2);
  const pid_t child = ::fork();
  if (child == 0) {
    world[0].abort("a worker of a data loader");
    std::_Exit(0);
  }
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  testing::on_all_ranks(world, [](Communicator& communicator) {
    const Buffer buffer(communicator, 64 << 10);
    EXPECT_TRUE(communicator.run(sum_of(buffer)));
  });
}

}  // namespace
}  // namespace trainyard::comm
