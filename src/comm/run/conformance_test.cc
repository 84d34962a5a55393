// SPDX-License-Identifier: Apache-2.0
// Every kind of operation, dtype and reduction, of sizes around the borders, by every algorithm, in
// worlds of 1 to 8, in place and not, over transports that behave differently: what comes out is
// compared with a plain computation.
#include <mutex>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "comm/run/trial.h"
#include "testing/comm_world.h"

namespace trainyard::comm {
namespace {

using testing::LocalWorld;
using testing::make_fabric_communicators;
using testing::make_local_communicators;
using testing::make_shared_memory_communicators;
using testing::WorldOptions;

enum class Over { kCopies, kInPlace, kLate, kShared, kFabricTcp, kFabricShm };

struct Setup {
  std::int32_t size;
  Algorithm algorithm;
  Over over;
};

std::string name_of_setup(const ::testing::TestParamInfo<Setup>& info) {
  const char* over[] = {"copies", "in_place", "late", "shared_memory", "fabric_tcp", "fabric_shm"};
  return fmt::format("{}_of_{}_by_{}", name_of(info.param.algorithm), info.param.size,
                     over[static_cast<int>(info.param.over)]);
}

constexpr DType kDTypes[] = {DType::kF32, DType::kF64, DType::kBF16, DType::kF16, DType::kI8,
                             DType::kI16, DType::kI32, DType::kI64,  DType::kU8,  DType::kBool};
constexpr ReduceOp kReductions[] = {ReduceOp::kSum,   ReduceOp::kProduct, ReduceOp::kMin,
                                    ReduceOp::kMax,   ReduceOp::kAverage, ReduceOp::kBitAnd,
                                    ReduceOp::kBitOr, ReduceOp::kBitXor};
constexpr OpKind kKinds[] = {OpKind::kBarrier,   OpKind::kAllReduce, OpKind::kReduceScatter,
                             OpKind::kAllGather, OpKind::kBroadcast, OpKind::kReduce,
                             OpKind::kGather,    OpKind::kScatter,   OpKind::kAllToAll};

bool may_be_uneven(OpKind kind) {
  return kind == OpKind::kReduceScatter || kind == OpKind::kAllGather || kind == OpKind::kAllToAll;
}

// Whose ranks map no memory of each other's.
bool is_fabric(Over over) {
  return over == Over::kFabricTcp || over == Over::kFabricShm;
}

// Each kind with each dtype and reduction; sizes, roots and forms take turns. Over libfabric a
// third of them in each world, another one in the next.
std::vector<Trial> trials(const Setup& setup, const World& world) {
  const auto n = static_cast<std::uint64_t>(setup.size);
  const std::uint64_t sizes[] = {0, 1, n - 1, n, n + 1, 37, 1500};
  std::vector<Trial> all;
  for (const OpKind kind : kKinds) {
    for (const DType dtype : kDTypes) {
      for (const ReduceOp reduce : kReductions) {
        const std::uint64_t turn = all.size();
        const bool is_one =
            is_reduction(kind) ? is_supported(reduce, dtype) : reduce == ReduceOp::kSum;
        if (!is_one || !is_available(setup.algorithm, kind, world)) {
          continue;
        }
        all.push_back({.kind = kind,
                       .dtype = dtype,
                       .reduce = reduce,
                       .count = sizes[turn % std::size(sizes)],
                       .root = static_cast<std::int32_t>(turn % n),
                       .in_place = turn % 2 == 0 && kind != OpKind::kAllToAll,
                       .uneven = turn % 3 == 0 && may_be_uneven(kind),
                       .registered = turn % 4 < 2 && !is_fabric(setup.over),
                       .seed = turn});
      }
    }
  }
  if (is_fabric(setup.over)) {
    std::erase_if(all, [&](const Trial& one) { return (one.seed + n) % 3 != 0; });
  }
  return all;
}

bool is_between_hosts(Algorithm algorithm) {
  return algorithm == Algorithm::kTwoLevel || algorithm == Algorithm::kBalanced ||
         algorithm == Algorithm::kMesh;
}

// Schedules between hosts want several, of different sizes.
std::vector<std::int32_t> hosts(Algorithm algorithm, std::int32_t size) {
  std::vector<std::int32_t> host(static_cast<std::size_t>(size));
  for (std::size_t rank = 0; rank < host.size() && is_between_hosts(algorithm); ++rank) {
    host[rank] = rank < 2 ? 0 : 1 + static_cast<std::int32_t>(rank) / 6;
  }
  return host;
}

// In pieces of 1,000 bytes.
Choices always(Algorithm algorithm) {
  Choices choices;
  for (const OpKind kind : kKinds) {
    for (const bool windows : {false, true}) {
      choices.rules.push_back({.kind = kind,
                               .windows = windows,
                               .choice = {.algorithm = algorithm, .piece_bytes = 1000}});
    }
  }
  sort_rules(choices);
  return choices;
}

LocalWorld world_of(const Setup& setup) {
  WorldOptions options;
  options.host = hosts(setup.algorithm, setup.size);
  options.choices = always(setup.algorithm);
  options.memory.stays_in_place = setup.over == Over::kInPlace;
  options.memory.places = setup.over == Over::kInPlace;
  options.memory.delay_seed = setup.over == Over::kLate ? 7 : 0;
  switch (setup.over) {
    case Over::kShared:
      return make_shared_memory_communicators(setup.size, options);
    case Over::kFabricTcp:
      return make_fabric_communicators("tcp;ofi_rxm", setup.size, options);
    case Over::kFabricShm:
      return make_fabric_communicators("shm", setup.size, options);
    default:
      return make_local_communicators(setup.size, options);
  }
}

// What went wrong, on any rank.
std::vector<std::string> run_all(LocalWorld& world, const std::vector<Trial>& all) {
  std::mutex mutex;
  std::vector<std::string> wrong;
  testing::on_all_ranks(world, [&](Communicator& communicator) {
    for (const Trial& trial : all) {
      TrialRun run(trial, communicator);
      const Result<void> done = communicator.run(run.operation());
      const std::string complaint =
          done ? run.verify() : to_string(trial) + ": " + done.error().message;
      if (!complaint.empty()) {
        const std::scoped_lock lock(mutex);
        wrong.push_back(complaint);
      }
      if (!done) {
        return;
      }
    }
  });
  return wrong;
}

class Conformance : public ::testing::TestWithParam<Setup> {};

TEST_P(Conformance, EqualsThePlainComputation) {
  LocalWorld world = world_of(GetParam());
  const std::vector<Trial> all = trials(GetParam(), world[0].world());
  EXPECT_EQ(run_all(world, all), std::vector<std::string>{});
  testing::end_all_ranks(world);
}

// Every rank has exactly the room that its plan counts on: were it too little, ranks would wait for
// each other's room, and the time-out would say so.
class Room : public ::testing::TestWithParam<Setup> {};

TEST_P(Room, IsNeverNeededBeyondThePlan) {
  WorldOptions options{.timeout = std::chrono::seconds(10)};
  options.host = hosts(GetParam().algorithm, GetParam().size);
  options.memory.room = 3000;
  LocalWorld world = make_local_communicators(GetParam().size, options);
  std::vector<Trial> all;
  for (const OpKind kind : kKinds) {
    if (is_available(GetParam().algorithm, kind, world[0].world())) {
      all.push_back({.kind = kind, .count = 5000, .algorithm = GetParam().algorithm});
    }
  }
  EXPECT_EQ(run_all(world, all), std::vector<std::string>{});
}

std::vector<Setup> setups(std::initializer_list<Over> overs) {
  std::vector<Setup> all;
  for (const std::int32_t size : {1, 2, 3, 4, 5, 8}) {
    for (const Algorithm algorithm :
         {Algorithm::kRing, Algorithm::kHalvingDoubling, Algorithm::kDoubleTree, Algorithm::kDirect,
          Algorithm::kDirectSmall, Algorithm::kWindow, Algorithm::kTwoLevel, Algorithm::kBalanced,
          Algorithm::kMesh}) {
      const OpKind kind = algorithm == Algorithm::kMesh ? OpKind::kAllGather : OpKind::kAllReduce;
      if (!is_available(algorithm, kind, {.size = size, .host = hosts(algorithm, size)})) {
        continue;
      }
      for (const Over over : overs) {
        all.push_back({size, algorithm, over});
      }
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, Conformance,
                         ::testing::ValuesIn(setups({Over::kCopies, Over::kInPlace, Over::kLate,
                                                     Over::kShared, Over::kFabricTcp,
                                                     Over::kFabricShm})),
                         name_of_setup);
INSTANTIATE_TEST_SUITE_P(All, Room, ::testing::ValuesIn(setups({Over::kCopies})), name_of_setup);

}  // namespace
}  // namespace trainyard::comm
