// SPDX-License-Identifier: Apache-2.0
// Random operations on several communicators, which each rank uses in another order and at another
// pace, over queues and over shared memory. Some seeds always; and for a set time:
//
//   TRAINYARD_RANDOM_SECONDS=1800 comm_test --gtest_filter='RandomOperationsForATime.*'
//
// from YARD_SEED_BASE on. A seed that fails is printed as YARD_SEED=n, and that variable replays
// it.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.h"
#include "comm/run/trial.h"
#include "testing/comm_world.h"

namespace trainyard::comm {
namespace {

using testing::LocalWorld;
using testing::WorldOptions;

constexpr int kWorlds = 3;
constexpr int kOperations = 60;

// What all ranks run on one communicator, in this order.
std::vector<Trial> program(std::mt19937_64& random, std::int32_t size) {
  constexpr OpKind kKinds[] = {OpKind::kBarrier,   OpKind::kAllReduce, OpKind::kReduceScatter,
                               OpKind::kAllGather, OpKind::kBroadcast, OpKind::kReduce,
                               OpKind::kGather,    OpKind::kScatter,   OpKind::kAllToAll};
  constexpr DType kDTypes[] = {DType::kF32, DType::kF64, DType::kBF16, DType::kI8, DType::kI64};
  constexpr ReduceOp kReductions[] = {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kAverage};
  std::vector<Trial> all;
  for (int i = 0; i < kOperations; ++i) {
    const OpKind kind = kKinds[random() % std::size(kKinds)];
    const std::uint64_t longest = random() % 8 == 0 ? 40'000 : 300;
    all.push_back({.kind = kind,
                   .dtype = kDTypes[random() % std::size(kDTypes)],
                   .reduce = kReductions[random() % std::size(kReductions)],
                   .count = random() % longest,
                   .root = static_cast<std::int32_t>(random() % static_cast<unsigned>(size)),
                   .in_place = kind != OpKind::kAllToAll && random() % 2 == 0,
                   .uneven = kind == OpKind::kAllGather && random() % 2 == 0,
                   .registered = random() % 3 == 0,
                   .seed = random() % 1000});
  }
  return all;
}

class Rank {
 public:
  // The seed is this rank's own: what it waits for, and which communicator comes next.
  Rank(std::vector<Communicator*> communicators, const std::vector<std::vector<Trial>>& programs,
       std::uint64_t seed)
      : communicators_(std::move(communicators)), programs_(programs), random_(seed) {}

  // What went wrong.
  std::vector<std::string> run() {
    std::vector<std::size_t> next(programs_.size());
    for (std::size_t left = programs_.size() * kOperations; left > 0; --left) {
      std::size_t which = random_() % next.size();
      while (next[which] == kOperations) {
        which = (which + 1) % next.size();
      }
      dawdle();
      issue(*communicators_[which], programs_[which][next[which]++]);
      finish_some();
    }
    while (!open_.empty()) {
      finish(random_() % open_.size());
    }
    return wrong_;
  }

 private:
  struct Open {
    std::unique_ptr<TrialRun> run;
    Work work;
  };

  // Now and then the others are far ahead.
  void dawdle() {
    if (random_() % 16 == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(random_() % 3000));
    }
  }

  void issue(Communicator& communicator, const Trial& trial) {
    auto run = std::make_unique<TrialRun>(trial, communicator);
    Result<Work> work = communicator.issue(run->operation());
    if (!work) {
      wrong_.push_back(work.error().message);
      return;
    }
    work->on_done([](const Result<void>& result) { EXPECT_TRUE(result.has_value()); });
    open_.push_back({std::move(run), std::move(*work)});
  }

  // Waits for none that is not done: another rank may want its communicators in another order.
  void finish_some() {
    const auto done = std::find_if(open_.begin(), open_.end(),
                                   [](const Open& open) { return open.work.is_done(); });
    if (done != open_.end()) {
      finish(static_cast<std::size_t>(done - open_.begin()));
    }
  }

  void finish(std::size_t which) {
    Open open = std::move(open_[which]);
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(which));
    const auto done = open.work.wait();
    const std::string complaint = done ? open.run->verify() : done.error().message;
    if (!complaint.empty()) {
      wrong_.push_back(complaint);
    }
  }

  std::vector<Communicator*> communicators_;
  const std::vector<std::vector<Trial>>& programs_;
  std::mt19937_64 random_;
  std::vector<Open> open_;
  std::vector<std::string> wrong_;
};

std::vector<std::string> run_seed(std::uint64_t seed, bool is_shared) {
  std::mt19937_64 random(seed);
  const auto size = static_cast<std::int32_t>(2 + random() % 3);
  std::vector<LocalWorld> worlds;
  std::vector<std::vector<Trial>> programs;
  for (int i = 0; i < kWorlds; ++i) {
    WorldOptions options{.name = "world" + std::to_string(i)};
    options.memory.delay_seed = random() % 2 == 0 ? 0 : random() % 100 + 1;
    options.memory.stays_in_place = random() % 2 == 0;
    options.memory.places = random() % 2 == 0;
    for (std::int32_t rank = 0; rank < size && !is_shared && i == 1; ++rank) {
      options.host.push_back(rank % 2);
    }
    worlds.push_back(is_shared ? testing::make_shared_memory_communicators(size, options)
                               : testing::make_local_communicators(size, options));
    programs.push_back(program(random, size));
  }
  std::mutex mutex;
  std::vector<std::string> wrong;
  testing::on_all_ranks(worlds[0], [&](Communicator& communicator) {
    std::vector<Communicator*> own;
    for (LocalWorld& world : worlds) {
      own.push_back(&world[static_cast<std::size_t>(communicator.rank())]);
    }
    Rank rank(own, programs, seed + static_cast<std::uint64_t>(communicator.rank()));
    const std::vector<std::string> mine = rank.run();
    const std::scoped_lock lock(mutex);
    wrong.insert(wrong.end(), mine.begin(), mine.end());
  });
  return wrong;
}

class RandomOperations : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(RandomOperations, GiveWhatTheyShouldOverQueues) {
  EXPECT_EQ(run_seed(GetParam(), false), std::vector<std::string>{}) << "seed " << GetParam();
}

TEST_P(RandomOperations, GiveWhatTheyShouldOverSharedMemory) {
  EXPECT_EQ(run_seed(GetParam(), true), std::vector<std::string>{}) << "seed " << GetParam();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomOperations, ::testing::Range<std::uint64_t>(1, 9));

std::optional<std::uint64_t> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  const auto number = parse_int(text == nullptr ? "" : text);
  return number && *number >= 0 ? std::optional<std::uint64_t>(*number) : std::nullopt;
}

TEST(RandomOperationsForATime, GiveWhatTheyShould) {
  const auto one = number_in("YARD_SEED");
  const auto asked = number_in("TRAINYARD_RANDOM_SECONDS");
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(asked.value_or(0));
  std::uint64_t seed = one.value_or(number_in("YARD_SEED_BASE").value_or(100));
  do {
    if (asked) {
      std::cout << "seed " << seed << std::endl;  // a crash shows no more than this
    }
    for (const bool is_shared : {false, true}) {
      ASSERT_EQ(run_seed(seed, is_shared), std::vector<std::string>{})
          << "YARD_SEED=" << seed << (is_shared ? " over shared memory" : " over queues");
    }
    ++seed;
  } while (!one && std::chrono::steady_clock::now() < end);
}

TEST(Allocation, IsZeroAndMayOutliveTheCommunicator) {
  std::shared_ptr<std::byte[]> memory;
  {
    LocalWorld world = testing::make_shared_memory_communicators(2);
    memory = world[0].allocate(10'000).value();
  }
  EXPECT_EQ(memory[9'999], std::byte{0});
  memory[9'999] = std::byte{1};
}

}  // namespace
}  // namespace trainyard::comm
