// SPDX-License-Identifier: Apache-2.0
#include "comm/fusion/fused_all_reduce.h"

#include <latch>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/comm_world.h"

namespace trainyard::comm {
namespace {

using ::testing::HasSubstr;
using testing::LocalWorld;
using testing::make_local_communicators;
using testing::on_all_ranks;
using testing::WorldOptions;

using Gradients = std::vector<std::vector<float>>;

// The same sizes on all ranks, values by rank.
Gradients gradients_of(std::int32_t rank, std::uint32_t seed) {
  std::mt19937 random(seed);
  Gradients all(12);
  for (std::vector<float>& one : all) {
    one.resize(random() % 3000);
    for (float& value : one) {
      value = static_cast<float>((random() + static_cast<std::uint_fast32_t>(rank) * 37) % 64);
    }
  }
  return all;
}

Gradients average_of(std::int32_t size, std::uint32_t seed) {
  Gradients sums = gradients_of(0, seed);
  for (std::int32_t rank = 1; rank < size; ++rank) {
    const Gradients more = gradients_of(rank, seed);
    for (std::size_t g = 0; g < sums.size(); ++g) {
      for (std::size_t i = 0; i < sums[g].size(); ++i) {
        sums[g][i] += more[g][i];
      }
    }
  }
  for (std::vector<float>& one : sums) {
    for (float& value : one) {
      value *= 1.0F / static_cast<float>(size);
    }
  }
  return sums;
}

// Adds all, flushes, waits until all were told.
void reduce(FusedAllReduce& fused, Gradients& gradients) {
  std::latch open(static_cast<std::ptrdiff_t>(gradients.size()));
  for (std::vector<float>& one : gradients) {
    const auto added =
        fused.add(std::as_writable_bytes(std::span(one)), [&](const Result<void>& done) {
          EXPECT_TRUE(done) << done.error().message;
          open.count_down();
        });
    ASSERT_TRUE(added) << added.error().message;
  }
  ASSERT_TRUE(fused.flush());
  open.wait();
}

class FusionTest : public ::testing::TestWithParam<std::vector<std::int32_t>> {};
INSTANTIATE_TEST_SUITE_P(Hosts, FusionTest,
                         ::testing::Values(std::vector<std::int32_t>{0},
                                           std::vector<std::int32_t>{0, 0},
                                           std::vector<std::int32_t>{0, 1},
                                           std::vector<std::int32_t>{0, 0, 0, 1}));

TEST_P(FusionTest, GivesTheAverageOfEveryGradient) {
  WorldOptions options;
  options.host = GetParam();
  const auto size = static_cast<std::int32_t>(GetParam().size());
  LocalWorld world = make_local_communicators(size, options);
  for (const std::size_t buffer_bytes : {std::size_t{4}, std::size_t{5000}, std::size_t{200000}}) {
    on_all_ranks(world, [&](Communicator& communicator) {
      FusedAllReduce fused(communicator, {.buffer_bytes = buffer_bytes});
      for (std::uint32_t step = 0; step < 3; ++step) {
        Gradients gradients = gradients_of(communicator.rank(), step);
        reduce(fused, gradients);
        EXPECT_EQ(gradients, average_of(size, step)) << buffer_bytes;
      }
    });
  }
}

TEST(Fusion, SendsAFullBufferBeforeTheStepEnds) {
  LocalWorld world = make_local_communicators(2);
  on_all_ranks(world, [](Communicator& communicator) {
    FusedAllReduce fused(communicator, {.buffer_bytes = 400});
    std::vector<float> first(100, 1.0F);
    std::vector<float> second(1, 1.0F);
    std::latch is_back(1);
    ASSERT_TRUE(fused.add(std::as_writable_bytes(std::span(first)),
                          [&](const Result<void>&) { is_back.count_down(); }));
    is_back.wait();  // nothing was flushed
    std::latch rest(1);
    ASSERT_TRUE(fused.add(std::as_writable_bytes(std::span(second)),
                          [&](const Result<void>&) { rest.count_down(); }));
    EXPECT_FALSE(rest.try_wait());
    ASSERT_TRUE(fused.flush());
    rest.wait();
  });
}

TEST(Fusion, UsesItsBuffersAgain) {
  LocalWorld world = make_local_communicators(2);
  on_all_ranks(world, [](Communicator& communicator) {
    FusedAllReduce fused(communicator, {.buffer_bytes = 1 << 20});
    for (std::uint32_t step = 0; step < 10; ++step) {
      Gradients gradients = gradients_of(communicator.rank(), step);
      reduce(fused, gradients);
    }
    EXPECT_EQ(fused.buffers_made(), 1U);
  });
}

TEST(Fusion, TellsEveryGradientOfAnError) {
  LocalWorld world = make_local_communicators(2);
  FusedAllReduce fused(world[0], {.buffer_bytes = 400});
  std::vector<float> values(1000, 1.0F);
  std::latch told(1);
  ASSERT_TRUE(fused.add(std::as_writable_bytes(std::span(values)), [&](const Result<void>& done) {
    EXPECT_EQ(done.error().code, Code::kCancelled);
    told.count_down();
  }));

  world[1].abort("enough");

  told.wait();
  bool is_told = false;
  ASSERT_TRUE(fused.add(std::as_writable_bytes(std::span(values)),
                        [&](const Result<void>& done) { is_told = !done; }));
  EXPECT_TRUE(is_told);
}

TEST(Fusion, KnowsWhichGradientsWaitForAFlush) {
  LocalWorld world = make_local_communicators(1);
  FusedAllReduce fused(world[0], {.buffer_bytes = 400});
  std::vector<float> sent(100, 1.0F);
  std::vector<float> cut(101, 1.0F);
  std::latch open(2);
  const auto told = [&](const Result<void>&) { open.count_down(); };
  ASSERT_TRUE(fused.add(std::as_writable_bytes(std::span(sent)), told));
  ASSERT_TRUE(fused.add(std::as_writable_bytes(std::span(cut)), told));

  EXPECT_FALSE(fused.waits_for_flush(std::as_bytes(std::span(sent))));
  EXPECT_TRUE(fused.waits_for_flush(std::as_bytes(std::span(cut))));
  ASSERT_TRUE(fused.flush());
  EXPECT_FALSE(fused.waits_for_flush(std::as_bytes(std::span(cut))));
  open.wait();  // they are written until then
}

TEST(Fusion, TellsGradientsThatWaitForAFlushOfTheEnd) {
  LocalWorld world = make_local_communicators(2);
  FusedAllReduce fused(world[0], {.buffer_bytes = 400});
  std::vector<float> values(10, 1.0F);
  Result<void> told;
  ASSERT_TRUE(fused.add(std::as_writable_bytes(std::span(values)),
                        [&](const Result<void>& done) { told = done; }));
  ASSERT_TRUE(fused.waits_for_flush(std::as_bytes(std::span(values))));

  world[0].abort("enough");

  EXPECT_FALSE(fused.waits_for_flush(std::as_bytes(std::span(values))));
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().code, Code::kCancelled);
}

TEST(Fusion, ItsEndTellsGradientsThatWereNotFlushedAndSendsNothing) {
  LocalWorld world = make_local_communicators(2);
  std::vector<float> values(10, 1.0F);
  Result<void> told;
  {
    FusedAllReduce fused(world[0], {.buffer_bytes = 400});
    ASSERT_TRUE(fused.add(std::as_writable_bytes(std::span(values)),
                          [&](const Result<void>& done) { told = done; }));
    EXPECT_TRUE(told);  // not yet
  }
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().code, Code::kCancelled);
  EXPECT_THAT(told.error().message, HasSubstr("call flush() at the end of each step"));
  EXPECT_EQ(world[0].flight_record(), "");
}

// What was full before is still written, so the gradient's memory is not let go of too early.
TEST(Fusion, ItsEndTellsACutGradientAfterThePartThatIsUnderWay) {
  LocalWorld world = make_local_communicators(2);
  std::vector<float> values(101, 1.0F);
  std::latch told(1);
  Code code = Code::kInternal;
  {
    FusedAllReduce fused(world[0], {.reduce = ReduceOp::kSum, .buffer_bytes = 400});
    ASSERT_TRUE(fused.add(std::as_writable_bytes(std::span(values)), [&](const Result<void>& done) {
      code = done ? Code::kInternal : done.error().code;
      told.count_down();
    }));
  }
  EXPECT_FALSE(told.try_wait());
  FusedAllReduce other(world[1], {.reduce = ReduceOp::kSum, .buffer_bytes = 400});
  std::vector<float> theirs(100, 2.0F);
  std::latch theirs_told(1);
  ASSERT_TRUE(other.add(std::as_writable_bytes(std::span(theirs)),
                        [&](const Result<void>&) { theirs_told.count_down(); }));
  theirs_told.wait();
  told.wait();
  EXPECT_EQ(code, Code::kCancelled);
  EXPECT_EQ(values[99], 3.0F);
  EXPECT_EQ(values[100], 1.0F);
}

TEST(Fusion, RefusesPartsOfElements) {
  LocalWorld world = make_local_communicators(1);
  FusedAllReduce fused(world[0], {});
  std::byte bytes[6] = {};
  const auto added = fused.add(bytes, [](const Result<void>&) { FAIL(); });
  EXPECT_EQ(added.error().message, "fused all_reduce: 6 bytes are no whole elements of float32");
}

}  // namespace
}  // namespace trainyard::comm
