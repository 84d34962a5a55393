// SPDX-License-Identifier: Apache-2.0
#include "comm/run/sweep.h"

#include <algorithm>
#include <mutex>
#include <set>

#include <gtest/gtest.h>

#include "testing/comm_world.h"

namespace trainyard::comm {
namespace {

using std::chrono::milliseconds;
using testing::LocalWorld;
using testing::make_shared_memory_communicators;
using testing::on_all_ranks;

// The tables of all ranks after a sweep of small operations, which there is time for.
std::set<std::string> swept(LocalWorld& world) {
  std::mutex mutex;
  std::set<std::string> tables;
  on_all_ranks(world, [&](Communicator& communicator) {
    const auto done = run_sweep(communicator, default_choices(),
                                {.time = std::chrono::minutes(1), .largest = kSmallestSweep});
    ASSERT_TRUE(done) << done.error().message;
    const std::scoped_lock lock(mutex);
    tables.insert(to_string(*done));
  });
  return tables;
}

// What a communicator says after a sweep that has little time or none.
std::string swept_for(LocalWorld& world, milliseconds limit) {
  on_all_ranks(world, [&](Communicator& communicator) {
    const auto done = communicator.sweep(limit);
    EXPECT_TRUE(done) << done.error().message;
  });
  return world[0].table();
}

bool has_rule_for(const std::string& table, OpKind kind, std::int32_t local) {
  const Choices choices = parse_choices(table).value();
  return std::any_of(choices.rules.begin(), choices.rules.end(), [&](const Rule& rule) {
    return rule.kind == kind && rule.hosts == 1 && rule.local == local && !rule.windows;
  });
}

TEST(Sweep, GivesAllRanksOneTableWithRulesForTheirWorld) {
  LocalWorld world = make_shared_memory_communicators(3);

  const std::set<std::string> tables = swept(world);

  ASSERT_EQ(tables.size(), 1U);
  for (const OpKind kind : {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kBroadcast}) {
    EXPECT_FALSE(has_rule_for(world[0].table(), kind, 3));
    EXPECT_TRUE(has_rule_for(*tables.begin(), kind, 3));
  }
}

TEST(Sweep, LeavesACommunicatorThatWorks) {
  LocalWorld world = make_shared_memory_communicators(2);
  swept_for(world, milliseconds(50));
  on_all_ranks(world, [](Communicator& communicator) {
    std::vector<float> values(100000, 1.0F);
    Operation operation;
    operation.kind = OpKind::kAllReduce;
    operation.reduce = ReduceOp::kSum;
    operation.output = std::as_writable_bytes(std::span(values));
    ASSERT_TRUE(communicator.run(operation));
    EXPECT_EQ(values, std::vector<float>(values.size(), 2.0F));
  });
}

TEST(Sweep, MeasuresNothingWithoutTime) {
  LocalWorld world = make_shared_memory_communicators(2);
  const std::string before = world[0].table();
  EXPECT_EQ(swept_for(world, milliseconds(0)), before);
}

TEST(Sweep, LeavesAWorldOfOneAlone) {
  LocalWorld world = make_shared_memory_communicators(1);
  EXPECT_EQ(swept(world), std::set<std::string>{to_string(default_choices())});
}

}  // namespace
}  // namespace trainyard::comm
