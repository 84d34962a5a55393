// SPDX-License-Identifier: Apache-2.0
// In which order collectives run, and on which thread.
#include <array>
#include <atomic>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "comm/run/work.h"
#include "testing/comm_world.h"

namespace trainyard::comm {
namespace {

using testing::LocalWorld;
using testing::make_local_communicators;

Operation sum_of(std::span<float> values) {
  return {.kind = OpKind::kAllReduce,
          .dtype = DType::kF32,
          .reduce = ReduceOp::kSum,
          .input = {},
          .output = std::as_writable_bytes(values),
          .counts = {},
          .receive_counts = {},
          .timeout = std::nullopt,
          .algorithm = std::nullopt};
}

TEST(Queue, GivesNumbersInTheOrderOfIssue) {
  LocalWorld world = make_local_communicators(2);
  testing::on_all_ranks(world, [](Communicator& communicator) {
    std::array<float, 3> values = {1, 2, 3};
    std::vector<Work> works;
    for (float& value : values) {
      works.push_back(communicator.issue(sum_of({&value, 1})).value());
    }
    EXPECT_EQ(works[0].sequence(), 1U);
    EXPECT_EQ(works[2].sequence(), 3U);
    for (Work& work : works) {
      EXPECT_TRUE(work.wait());
      EXPECT_TRUE(work.is_done());
    }
    EXPECT_EQ(values, (std::array<float, 3>{2, 4, 6}));
  });
}

TEST(Queue, FinishesEarlierOnesWhenALaterOneIsWaitedFor) {
  LocalWorld world = make_local_communicators(2);
  testing::on_all_ranks(world, [](Communicator& communicator) {
    float first = 1;
    float last = 2;
    Work early = communicator.issue(sum_of({&first, 1})).value();
    Work late = communicator.issue(sum_of({&last, 1})).value();
    EXPECT_TRUE(late.wait());
    EXPECT_TRUE(early.is_done());
  });
}

TEST(Queue, RunsWithoutAnyoneWaiting) {
  LocalWorld world = make_local_communicators(2);
  std::latch done(2);
  std::array<float, 2> values = {1, 2};
  std::vector<Work> works;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    works.push_back(world[rank].issue(sum_of({&values[rank], 1})).value());
    works.back().on_done([&](const Result<void>& result) {
      EXPECT_TRUE(result);
      done.count_down();
    });
  }
  done.wait();
  EXPECT_EQ(values, (std::array<float, 2>{3, 3}));
}

TEST(Queue, RunsABlockingOneBehindThoseIssued) {
  LocalWorld world = make_local_communicators(2);
  testing::on_all_ranks(world, [](Communicator& communicator) {
    float value = 1;
    Work early = communicator.issue(sum_of({&value, 1})).value();
    EXPECT_TRUE(communicator.run(sum_of({&value, 1})));
    EXPECT_TRUE(early.is_done());
    EXPECT_EQ(value, 4);
  });
}

// Rank 1 has issued nothing when rank 0 waits, so rank 0's helper may hold the turn or not; in a
// world of one there is nobody to wait for, and the turn is free.
TEST(Queue, LetsTheWaitingThreadRunIt) {
  LocalWorld world = make_local_communicators(1);
  float value = 1;
  EXPECT_TRUE(world[0].run(sum_of({&value, 1})));
  int own = 0;
  for (int i = 0; i < 200; ++i) {
    std::thread::id ran;
    Work work = world[0].issue(sum_of({&value, 1})).value();
    work.on_done([&](const Result<void>&) { ran = std::this_thread::get_id(); });
    EXPECT_TRUE(work.wait());
    own += ran == std::this_thread::get_id() ? 1 : 0;
  }
  EXPECT_GT(own, 0);
}

TEST(Queue, CallsBackAtOnceWhenAlreadyDone) {
  LocalWorld world = make_local_communicators(1);
  float value = 1;
  Work work = world[0].issue(sum_of({&value, 1})).value();
  EXPECT_TRUE(work.wait());
  bool is_told = false;
  work.on_done([&](const Result<void>& result) { is_told = result.has_value(); });
  EXPECT_TRUE(is_told);
}

TEST(Queue, TakesMoreFromACallback) {
  LocalWorld world = make_local_communicators(1);
  std::latch done(1);
  float value = 1;
  Work work = world[0].issue(sum_of({&value, 1})).value();
  work.on_done([&](const Result<void>&) {
    world[0].issue(sum_of({&value, 1})).value().on_done([&](const Result<void>&) {
      done.count_down();
    });
  });
  EXPECT_TRUE(work.wait());
  done.wait();
}

TEST(Queue, ServesSeveralWaitingThreads) {
  LocalWorld world = make_local_communicators(2);
  testing::on_all_ranks(world, [](Communicator& communicator) {
    std::array<float, 8> values = {1, 1, 1, 1, 1, 1, 1, 1};
    std::vector<Work> works;
    for (float& value : values) {
      works.push_back(communicator.issue(sum_of({&value, 1})).value());
    }
    {
      std::vector<std::jthread> waiting;
      for (std::size_t i = works.size(); i-- > 0;) {
        waiting.emplace_back([&works, i] { EXPECT_TRUE(works[i].wait()); });
      }
    }
    EXPECT_EQ(values[7], 2);
  });
}

TEST(Queue, FinishesWhatWasIssuedBeforeItEnds) {
  float values[2] = {1, 2};
  std::vector<Work> works;
  {
    LocalWorld world = make_local_communicators(2);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      for (int i = 0; i < 20; ++i) {
        works.push_back(world[rank].issue(sum_of({&values[rank], 1})).value());
      }
    }
    testing::end_all_ranks(world);
  }
  for (Work& work : works) {
    EXPECT_TRUE(work.is_done());
    EXPECT_TRUE(work.wait());
  }
  EXPECT_EQ(values[0], values[1]);
}

// Nothing but a sanitizer sees that a thread still looks at what has ended, so: often.
TEST(Queue, EndsWhileOthersWaitForItsWorks) {
  for (int i = 0; i < 100; ++i) {
    LocalWorld world = make_local_communicators(2);
    float values[2] = {1, 2};
    std::vector<Work> works;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      works.push_back(world[rank].issue(sum_of({&values[rank], 1})).value());
    }
    std::vector<std::jthread> waiting;
    for (std::size_t rank = 0; rank < 4; ++rank) {
      waiting.emplace_back([work = works[rank % 2]]() mutable { EXPECT_TRUE(work.wait()); });
    }
    testing::end_all_ranks(world);
  }
}

TEST(Gate, ClosesBehindThoseWhoAreInside) {
  Gate gate;
  ASSERT_TRUE(gate.enter());
  std::atomic<bool> is_closed = false;
  std::jthread closing([&] {
    gate.close();
    is_closed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(is_closed);
  gate.leave();
  closing.join();
  EXPECT_TRUE(is_closed);
  EXPECT_FALSE(gate.enter());
}

// Each rank issues to both in another order; within a communicator the order is the same.
TEST(Queue, KeepsCommunicatorsApart) {
  LocalWorld one = make_local_communicators(2, {.name = "one"});
  LocalWorld two = make_local_communicators(2, {.name = "two"});
  testing::on_all_ranks(one, [&](Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    Communicator& first = rank == 0 ? one[0] : two[1];
    Communicator& second = rank == 0 ? two[0] : one[1];
    float a = 1;
    float b = 2;
    Work work = first.issue(sum_of({rank == 0 ? &a : &b, 1})).value();
    EXPECT_TRUE(second.run(sum_of({rank == 0 ? &b : &a, 1})));
    EXPECT_TRUE(work.wait());
    EXPECT_EQ(a, 2);
    EXPECT_EQ(b, 4);
  });
}

}  // namespace
}  // namespace trainyard::comm
