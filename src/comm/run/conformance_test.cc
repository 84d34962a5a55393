// SPDX-License-Identifier: Apache-2.0
// Every kind of operation, dtype and reduction, of sizes around the borders, by every algorithm, in
// worlds of 1 to 8, in place and not, over queues that behave differently and over every real
// transport: what comes out is compared with a plain computation.
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "comm/run/trial.h"
#include "testing/comm_world.h"
#include "testing/host_world.h"

namespace trainyard::comm {
namespace {

using testing::LocalWorld;
using testing::make_fabric_communicators;
using testing::make_local_communicators;
using testing::make_routed_communicators;
using testing::make_shared_memory_communicators;
using testing::make_tcp_communicators;
using testing::WorldOptions;

// kTwoHosts: the router, shared memory inside hosts and TCP between them.
enum class Over { kCopies, kInPlace, kLate, kShared, kTcp, kTwoHosts, kFabricTcp, kFabricShm };
constexpr Over kOvers[] = {Over::kCopies, Over::kInPlace,  Over::kLate,      Over::kShared,
                           Over::kTcp,    Over::kTwoHosts, Over::kFabricTcp, Over::kFabricShm};

struct Setup {
  std::int32_t size;
  Algorithm algorithm;
  Over over;
};

const char* name_of(Over over) {
  const char* names[] = {"copies", "in_place",  "late",       "shared_memory",
                         "tcp",    "two_hosts", "fabric_tcp", "fabric_shm"};
  return names[static_cast<int>(over)];
}

std::string name_of_setup(const ::testing::TestParamInfo<Setup>& info) {
  return fmt::format("{}_of_{}_by_{}", name_of(info.param.algorithm), info.param.size,
                     name_of(info.param.over));
}

constexpr Algorithm kAlgorithms[] = {Algorithm::kRing,        Algorithm::kHalvingDoubling,
                                     Algorithm::kDoubleTree,  Algorithm::kDirect,
                                     Algorithm::kDirectSmall, Algorithm::kWindow,
                                     Algorithm::kSingleCopy,  Algorithm::kTwoLevel,
                                     Algorithm::kBalanced,    Algorithm::kMesh};
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

// Whose ranks can map memory of each other's.
bool has_windows(Over over) {
  return over <= Over::kShared;
}

// How ranks get at buffers of others, registered ones and private ones.
Reach reach_of(Over over, bool is_registered) {
  if (is_registered && has_windows(over)) {
    return Reach::kMapped;
  }
  return over == Over::kShared ? Reach::kCopied : Reach::kMessages;
}

bool has_reach(Over over, Algorithm algorithm, bool is_registered) {
  return reach_of(over, is_registered) >= needed_by(Rule{.choice = {.algorithm = algorithm}});
}

bool is_between_hosts(Algorithm algorithm) {
  return algorithm == Algorithm::kTwoLevel || algorithm == Algorithm::kBalanced ||
         algorithm == Algorithm::kMesh;
}

// Schedules between hosts want several, of different sizes.
std::vector<std::int32_t> hosts(const Setup& setup) {
  std::vector<std::int32_t> host(static_cast<std::size_t>(setup.size));
  for (std::size_t rank = 0; rank < host.size(); ++rank) {
    if (setup.over == Over::kTwoHosts) {
      host[rank] = 2 * rank >= host.size() ? 1 : 0;
    } else if (is_between_hosts(setup.algorithm)) {
      host[rank] = rank < 2 ? 0 : 1 + static_cast<std::int32_t>(rank) / 6;
    }
  }
  return host;
}

World shape_of(const Setup& setup) {
  return {.rank = 0, .size = setup.size, .host = hosts(setup)};
}

// Where memory of others cannot be reached, schedules that need it are direct ones, after a meeting
// in vain: once is enough.
bool can_run(const Setup& setup, OpKind kind) {
  return is_available(setup.algorithm, kind, shape_of(setup)) &&
         (has_reach(setup.over, setup.algorithm, true) || setup.size == 3) &&
         (setup.over != Over::kTwoHosts || setup.size > 2);
}

// The sizes of the sums that matter most: in elements, with the last one of about 1 MiB in all.
constexpr const char* kSizeNames[] = {"0", "1", "n - 1", "n", "n + 1", "1,500", "1 MiB"};
constexpr std::size_t kLarge = 6;
std::uint64_t size_of_sum(std::size_t which, const Setup& setup, OpKind kind, DType dtype) {
  const auto n = static_cast<std::uint64_t>(setup.size);
  const bool is_each =
      kind == OpKind::kGather || kind == OpKind::kScatter || kind == OpKind::kAllToAll;
  const std::uint64_t large = (std::uint64_t{1} << 20) / size_of(dtype) + 3;
  const std::uint64_t sizes[] = {0, 1, n - 1, n, n + 1, 1500, is_each ? large / n : large};
  return sizes[which];
}

// Which sizes a setup takes. Where worlds cost more than operations, every world has a third of
// them. The largest is for one world of each algorithm and transport; of bfloat16, which takes long
// to compute plainly, where the dtype matters.
bool takes_size(std::size_t which, const Setup& setup, OpKind kind, DType dtype) {
  if (which == kLarge) {
    const int turn = static_cast<int>(setup.algorithm) + static_cast<int>(setup.over);
    return dtype == DType::kF32 ? setup.size == 3 + turn % 3
                                : setup.size == 3 && is_reduction(kind);
  }
  return has_windows(setup.over) || (which + static_cast<std::size_t>(setup.size)) % 3 == 0;
}

// Makes the trials of one setup; what is drawn is the same in every run, and differs between
// worlds and transports.
class Maker {
 public:
  explicit Maker(const Setup& setup)
      : setup_(setup),
        random_(static_cast<std::uint64_t>(setup.size) * 100 +
                static_cast<std::uint64_t>(setup.algorithm) * 10 +
                static_cast<std::uint64_t>(setup.over)) {}

  // Sums of float32 and bfloat16: each size, and evenly, so that it is this algorithm that runs.
  void add_sums(OpKind kind) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (std::size_t which = 0; which < std::size(kSizeNames); ++which) {
        if (takes_size(which, setup_, kind, dtype)) {
          Trial trial = draw(kind, dtype, ReduceOp::kSum, size_of_sum(which, setup_, kind, dtype));
          trial.uneven = false;
          trial.registered = has_windows(setup_.over) &&
                             (trial.registered || !has_reach(setup_.over, setup_.algorithm, false));
          all_.push_back(trial);
        }
      }
    }
  }

  // Each dtype and reduction, of some size.
  void add_combinations(OpKind kind) {
    const auto n = static_cast<std::uint64_t>(setup_.size);
    const std::uint64_t sizes[] = {0, 1, n - 1, n, n + 1, 37, 1500};
    for (const DType dtype : kDTypes) {
      for (const ReduceOp reduce : kReductions) {
        const bool is_one =
            is_reduction(kind) ? is_supported(reduce, dtype) : reduce == ReduceOp::kSum;
        const bool is_turn = has_windows(setup_.over) || ++turn_ % 3 == 0;
        if (is_one && is_turn) {
          all_.push_back(draw(kind, dtype, reduce, sizes[random_() % std::size(sizes)]));
        }
      }
    }
  }

  std::vector<Trial> take() { return std::move(all_); }

 private:
  Trial draw(OpKind kind, DType dtype, ReduceOp reduce, std::uint64_t count) {
    return {.kind = kind,
            .dtype = dtype,
            .reduce = reduce,
            .count = count,
            .root = static_cast<std::int32_t>(random_() % static_cast<unsigned>(setup_.size)),
            .in_place = random_() % 2 == 0 && kind != OpKind::kAllToAll,
            .uneven = random_() % 3 == 0 && may_be_uneven(kind),
            .registered = random_() % 2 == 0 && has_windows(setup_.over),
            .seed = random_() % 1000};
  }

  Setup setup_;
  std::mt19937_64 random_;
  std::uint64_t turn_ = 0;
  std::vector<Trial> all_;
};

std::vector<Trial> trials(const Setup& setup) {
  Maker maker(setup);
  for (const OpKind kind : kKinds) {
    if (can_run(setup, kind)) {
      maker.add_sums(kind);
      maker.add_combinations(kind);
    }
  }
  return maker.take();
}

// In pieces of 1,000 bytes, so that also small operations have several; large ones in longer ones.
Choices always(Algorithm algorithm) {
  constexpr std::uint64_t kSmall = std::uint64_t{64} << 10;
  Choices choices;
  for (const OpKind kind : kKinds) {
    for (const bool windows : {false, true}) {
      Rule rule{.kind = kind, .windows = windows, .bytes = kSmall};
      rule.choice = {.algorithm = algorithm, .piece_bytes = 1000};
      choices.rules.push_back(rule);
      rule.bytes = Rule::kAnyBytes;
      rule.choice.piece_bytes = 16'000;
      choices.rules.push_back(rule);
    }
  }
  sort_rules(choices);
  return choices;
}

LocalWorld world_of(const Setup& setup) {
  WorldOptions options;
  options.host = hosts(setup);
  options.choices = always(setup.algorithm);
  options.memory.stays_in_place = setup.over == Over::kInPlace;
  options.memory.places = setup.over == Over::kInPlace;
  options.delay_seed = setup.over == Over::kLate ? 7 : 0;
  switch (setup.over) {
    case Over::kShared:
      return make_shared_memory_communicators(setup.size, options);
    case Over::kTcp:
      return make_tcp_communicators(setup.size, options);
    case Over::kTwoHosts:
      return make_routed_communicators(setup.size, options);
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
  EXPECT_EQ(run_all(world, trials(GetParam())), std::vector<std::string>{});
  testing::end_all_ranks(world);
}

// Every rank has exactly the room that its plan counts on: were it too little, ranks would wait for
// each other's room, and the time-out would say so.
class Room : public ::testing::TestWithParam<Setup> {};

TEST_P(Room, IsNeverNeededBeyondThePlan) {
  WorldOptions options{.timeout = std::chrono::seconds(10)};
  options.host = hosts(GetParam());
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

template <typename Overs>
std::vector<Setup> setups(const Overs& overs) {
  std::vector<Setup> all;
  for (const std::int32_t size : {1, 2, 3, 4, 5, 8}) {
    for (const Algorithm algorithm : kAlgorithms) {
      for (const Over over : overs) {
        const Setup setup{size, algorithm, over};
        if (std::ranges::any_of(kKinds, [&](OpKind kind) { return can_run(setup, kind); })) {
          all.push_back(setup);
        }
      }
    }
  }
  return all;
}

// Whether the operation is performed by the algorithm of its setup, between ranks.
bool is_by_algorithm(const Setup& setup, const Trial& trial) {
  const Request request{.kind = trial.kind, .count = trial.count};
  const Choice choice = choose(always(setup.algorithm), request, size_of(trial.dtype),
                               shape_of(setup), reach_of(setup.over, trial.registered));
  return setup.size > 1 && !trial.uneven && choice.algorithm == setup.algorithm;
}

// Sums of float32: how many there are of each kind, algorithm, transport and size.
using Counts = std::map<std::string, int>;

std::string name_of_sum(const Setup& setup, OpKind kind, const char* size) {
  return fmt::format("{} {} of {} over {}", name_of(setup.algorithm), name_of(kind), size,
                     name_of(setup.over));
}

void count_sums(const Setup& setup, Counts& counts) {
  for (const Trial& trial : trials(setup)) {
    if (trial.dtype != DType::kF32 || trial.reduce != ReduceOp::kSum ||
        !is_by_algorithm(setup, trial)) {
      continue;
    }
    if (trial.count > static_cast<std::uint64_t>(setup.size)) {
      ++counts[name_of_sum(setup, trial.kind, "more than n")];
    }
    for (std::size_t which = 0; which < std::size(kSizeNames); ++which) {
      if (trial.count == size_of_sum(which, setup, trial.kind, trial.dtype)) {
        ++counts[name_of_sum(setup, trial.kind, kSizeNames[which])];
      }
    }
  }
}

// What the algorithm can do over the transport must be among the trials.
void add_never_run(const Setup& setup, OpKind kind, Counts& counts,
                   std::vector<std::string>& never) {
  if (kind == OpKind::kBarrier || !has_reach(setup.over, setup.algorithm, true) ||
      !is_available(setup.algorithm, kind, shape_of(setup))) {
    return;
  }
  std::vector<const char*> sizes(std::begin(kSizeNames), std::end(kSizeNames));
  sizes.push_back("more than n");
  for (const char* size : sizes) {
    if (counts[name_of_sum(setup, kind, size)] == 0) {
      never.push_back(name_of_sum(setup, kind, size));
    }
  }
}

std::vector<std::string> sums_never_run() {
  Counts counts;
  for (const Setup& setup : setups(kOvers)) {
    count_sums(setup, counts);
  }
  std::vector<std::string> never;
  for (const Over over : kOvers) {
    for (const Algorithm algorithm : kAlgorithms) {
      for (const OpKind kind : kKinds) {
        add_never_run({.size = 4, .algorithm = algorithm, .over = over}, kind, counts, never);
      }
    }
  }
  return never;
}

TEST(ConformanceTrials, HaveSumsOfEverySizeByEachAlgorithmOverEachTransport) {
  EXPECT_EQ(sums_never_run(), std::vector<std::string>{});
}

INSTANTIATE_TEST_SUITE_P(All, Conformance, ::testing::ValuesIn(setups(kOvers)), name_of_setup);
INSTANTIATE_TEST_SUITE_P(All, Room, ::testing::ValuesIn(setups(std::vector{Over::kCopies})),
                         name_of_setup);

}  // namespace
}  // namespace trainyard::comm
