// SPDX-License-Identifier: Apache-2.0
// Random operations on several communicators, one of them of some of the ranks only, which each
// rank uses in another order and at another pace: collectives, and messages with tags beside them;
// over queues and over every real transport, on time and late. Some seeds always; and for a set
// time:
//
//   TRAINYARD_RANDOM_SECONDS=1800 comm_stress_test --gtest_filter='RandomOperationsForATime.*'
//
// from YARD_SEED_BASE on. A seed that fails is printed as YARD_SEED=n, and that variable replays
// it.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "comm/run/trial.h"
#include "testing/comm_world.h"
#include "testing/host_world.h"

namespace trainyard::comm {
namespace {

using testing::LocalWorld;
using testing::WorldOptions;

enum class Over { kQueues, kShared, kTcp, kTwoHosts };
constexpr Over kOvers[] = {Over::kQueues, Over::kShared, Over::kTcp, Over::kTwoHosts};

std::string name_of_over(Over over) {
  return std::vector<std::string>{"Queues", "SharedMemory", "Tcp",
                                  "TwoHosts"}[static_cast<std::size_t>(over)];
}

constexpr int kWorlds = 3;
constexpr int kOperations = 50;
constexpr int kStreams = 4;
constexpr int kMessages = 8;

// So many messages from one rank to another under one tag. Small ones go at once, large ones when
// they are asked for.
struct Stream {
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::uint32_t tag = 0;
  std::vector<std::size_t> sizes;
};

// What all its ranks run on one communicator: the collectives in this order; the messages of a
// stream in theirs, at any time.
struct Program {
  std::vector<Trial> collectives;
  std::vector<Stream> streams;
};

bool may_be_uneven(OpKind kind) {
  return kind == OpKind::kReduceScatter || kind == OpKind::kAllGather || kind == OpKind::kAllToAll;
}

Trial draw_trial(std::mt19937_64& random, std::int32_t size, bool has_heap) {
  constexpr OpKind kKinds[] = {OpKind::kBarrier,   OpKind::kAllReduce, OpKind::kReduceScatter,
                               OpKind::kAllGather, OpKind::kBroadcast, OpKind::kReduce,
                               OpKind::kGather,    OpKind::kScatter,   OpKind::kAllToAll};
  constexpr DType kDTypes[] = {DType::kF32, DType::kF64, DType::kBF16, DType::kI8, DType::kI64};
  constexpr ReduceOp kReductions[] = {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kAverage};
  const OpKind kind = kKinds[random() % std::size(kKinds)];
  const std::uint64_t longest = random() % 8 == 0 ? 40'000 : 300;
  return {.kind = kind,
          .dtype = kDTypes[random() % std::size(kDTypes)],
          .reduce = kReductions[random() % std::size(kReductions)],
          .count = random() % longest,
          .root = static_cast<std::int32_t>(random() % static_cast<unsigned>(size)),
          .in_place = random() % 2 == 0 && kind != OpKind::kAllToAll,
          .uneven = random() % 2 == 0 && may_be_uneven(kind),
          .registered = random() % 3 == 0 && has_heap,
          .seed = random() % 1000};
}

Stream draw_stream(std::mt19937_64& random, std::int32_t size) {
  const auto ranks = static_cast<unsigned>(size);
  Stream stream{.from = static_cast<std::int32_t>(random() % ranks),
                .to = static_cast<std::int32_t>(random() % ranks),
                .tag = static_cast<std::uint32_t>(random()),
                .sizes = {}};
  for (int i = 0; i < kMessages; ++i) {
    stream.sizes.push_back(random() % (random() % 4 == 0 ? 100'000 : 500));
  }
  return stream;
}

Program draw_program(std::mt19937_64& random, std::int32_t size, bool has_heap) {
  Program program;
  for (int i = 0; i < kOperations; ++i) {
    program.collectives.push_back(draw_trial(random, size, has_heap));
  }
  for (int i = 0; i < kStreams; ++i) {
    program.streams.push_back(draw_stream(random, size));
  }
  return program;
}

// Bytes of a message, by stream and by place in it.
std::vector<std::byte> payload(const Stream& stream, std::size_t which) {
  std::mt19937 random(stream.tag + static_cast<std::uint32_t>(which) * 7919);
  std::vector<std::byte> bytes(stream.sizes[which]);
  std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random()); });
  return bytes;
}

// An operation that one rank has still to issue, and one that it has issued: what is wrong with it
// once it is done, or nothing.
struct Issued {
  Work work;
  std::function<std::string()> verify;  // keeps the buffers
};
using Issue = std::function<Result<Issued>()>;

Issue issue_trial(Communicator& communicator, const Trial& trial) {
  return [&communicator, trial]() -> Result<Issued> {
    auto run = std::make_shared<TrialRun>(trial, communicator);
    YARD_TRY(Work work, communicator.issue(run->operation()));
    return Issued{std::move(work), [run] { return run->verify(); }};
  };
}

Operation transfer(OpKind kind, std::int32_t peer, std::uint32_t tag) {
  return {.kind = kind,
          .dtype = DType::kU8,
          .input = {},
          .output = {},
          .root = peer,
          .tag = tag,
          .counts = {},
          .receive_counts = {},
          .timeout = std::nullopt,
          .algorithm = std::nullopt};
}

Issue issue_send(Communicator& communicator, const Stream& stream, std::size_t which) {
  return [&communicator, &stream, which]() -> Result<Issued> {
    const auto bytes = std::make_shared<std::vector<std::byte>>(payload(stream, which));
    Operation operation = transfer(OpKind::kSend, stream.to, stream.tag);
    operation.input = *bytes;
    YARD_TRY(Work work, communicator.issue(std::move(operation)));
    return Issued{std::move(work), [bytes] { return std::string(); }};
  };
}

Issue issue_receive(Communicator& communicator, const Stream& stream, std::size_t which) {
  return [&communicator, &stream, which]() -> Result<Issued> {
    const auto bytes = std::make_shared<std::vector<std::byte>>(stream.sizes[which]);
    Operation operation = transfer(OpKind::kReceive, stream.from, stream.tag);
    operation.output = *bytes;
    YARD_TRY(Work work, communicator.issue(std::move(operation)));
    return Issued{std::move(work), [bytes, &stream, which] {
                    return *bytes == payload(stream, which)
                               ? std::string()
                               : fmt::format("message {} of {} bytes from {} to {} is wrong", which,
                                             bytes->size(), stream.from, stream.to);
                  }};
  };
}

// Operations whose order must be kept: the collectives of a communicator, one end of a stream.
using Line = std::vector<Issue>;

void add_lines(Communicator& communicator, const Program& program, std::vector<Line>& lines) {
  Line& collectives = lines.emplace_back();
  for (const Trial& trial : program.collectives) {
    collectives.push_back(issue_trial(communicator, trial));
  }
  for (const Stream& stream : program.streams) {
    for (const bool sends : {true, false}) {
      if ((sends ? stream.from : stream.to) == communicator.rank()) {
        Line& line = lines.emplace_back();
        for (std::size_t which = 0; which < stream.sizes.size(); ++which) {
          line.push_back(sends ? issue_send(communicator, stream, which)
                               : issue_receive(communicator, stream, which));
        }
      }
    }
  }
}

class Rank {
 public:
  // The seed is this rank's own: what it waits for, and which line goes on next.
  Rank(std::vector<Line> lines, std::uint64_t seed) : lines_(std::move(lines)), random_(seed) {}

  // What went wrong.
  std::vector<std::string> run() {
    std::vector<std::size_t> turns;  // of each line as many as it has operations
    for (std::size_t line = 0; line < lines_.size(); ++line) {
      turns.insert(turns.end(), lines_[line].size(), line);
    }
    std::ranges::shuffle(turns, random_);
    std::vector<std::size_t> next(lines_.size());
    for (const std::size_t line : turns) {
      dawdle();
      issue(lines_[line][next[line]++]);
      finish_some();
    }
    while (!open_.empty()) {
      finish(random_() % open_.size());
    }
    return wrong_;
  }

 private:
  // Now and then the others are far ahead.
  void dawdle() {
    if (random_() % 16 == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(random_() % 3000));
    }
  }

  void issue(const Issue& issue) {
    auto issued = issue();
    if (!issued) {
      wrong_.push_back(issued.error().message);
      return;
    }
    issued->work.on_done([](const Result<void>& result) { EXPECT_TRUE(result.has_value()); });
    open_.push_back(std::move(*issued));
  }

  // Waits for none that is not done: another rank may want its communicators in another order.
  void finish_some() {
    const auto done = std::find_if(open_.begin(), open_.end(),
                                   [](const Issued& open) { return open.work.is_done(); });
    if (done != open_.end()) {
      finish(static_cast<std::size_t>(done - open_.begin()));
    }
  }

  void finish(std::size_t which) {
    Issued open = std::move(open_[which]);
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(which));
    const auto done = open.work.wait();
    const std::string complaint = done ? open.verify() : done.error().message;
    if (!complaint.empty()) {
      wrong_.push_back(complaint);
    }
  }

  std::vector<Line> lines_;
  std::mt19937_64 random_;
  std::vector<Issued> open_;
  std::vector<std::string> wrong_;
};

// A communicator, and the threads that are its ranks.
struct Group {
  std::vector<std::size_t> members;  // by rank in it
  LocalWorld world;
  Program program;
};

LocalWorld make_world(Over over, std::int32_t size, const WorldOptions& options) {
  switch (over) {
    case Over::kShared:
      return testing::make_shared_memory_communicators(size, options);
    case Over::kTcp:
      return testing::make_tcp_communicators(size, options);
    case Over::kTwoHosts:
      return testing::make_routed_communicators(size, options);
    default:
      return testing::make_local_communicators(size, options);
  }
}

Group draw_group(std::mt19937_64& random, Over over, std::size_t threads, bool is_part) {
  Group group;
  group.members.resize(threads);
  std::iota(group.members.begin(), group.members.end(), std::size_t{0});
  if (is_part) {
    std::ranges::shuffle(group.members, random);
    group.members.resize(2 + random() % (threads - 1));
  }
  const auto size = static_cast<std::int32_t>(group.members.size());
  WorldOptions options{.name = fmt::format("world of {}", size)};
  options.delay_seed = random() % 2 == 0 ? 0 : random() % 100 + 1;
  options.memory.stays_in_place = random() % 2 == 0;
  options.memory.places = random() % 2 == 0;
  const bool has_hosts = random() % 2 == 0 || over == Over::kTwoHosts;
  for (std::int32_t rank = 0; rank < size && has_hosts && over != Over::kShared; ++rank) {
    options.host.push_back(rank % 2);
  }
  group.world = make_world(over, size, options);
  group.program = draw_program(random, size, over == Over::kQueues || over == Over::kShared);
  return group;
}

std::vector<std::string> run_seed(std::uint64_t seed, Over over) {
  std::mt19937_64 random(seed);
  const std::size_t threads = 2 + random() % 4;
  std::vector<Group> groups;
  groups.reserve(kWorlds);
  for (int i = 0; i < kWorlds; ++i) {
    groups.push_back(draw_group(random, over, threads, i == kWorlds - 1));
  }
  std::mutex mutex;
  std::vector<std::string> wrong;
  const auto run = [&](std::size_t thread) {
    std::vector<Line> lines;
    for (Group& group : groups) {
      const auto own = std::ranges::find(group.members, thread);
      if (own != group.members.end()) {
        const auto rank = static_cast<std::size_t>(own - group.members.begin());
        add_lines(group.world[rank], group.program, lines);
      }
    }
    const std::vector<std::string> mine = Rank(std::move(lines), seed + thread).run();
    const std::scoped_lock lock(mutex);
    wrong.insert(wrong.end(), mine.begin(), mine.end());
  };
  {
    std::vector<std::jthread> all;
    all.reserve(threads);
    for (std::size_t thread = 0; thread < threads; ++thread) {
      all.emplace_back(run, thread);
    }
  }
  for (Group& group : groups) {
    testing::end_all_ranks(group.world);
  }
  return wrong;
}

using SeedOver = std::tuple<std::uint64_t, Over>;
class RandomOperations : public ::testing::TestWithParam<SeedOver> {};

TEST_P(RandomOperations, GiveWhatTheyShould) {
  const auto [seed, over] = GetParam();
  EXPECT_EQ(run_seed(seed, over), std::vector<std::string>{}) << "seed " << seed;
}

std::string name_of_case(const ::testing::TestParamInfo<SeedOver>& info) {
  return fmt::format("{}Over{}", std::get<0>(info.param), name_of_over(std::get<1>(info.param)));
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomOperations,
                         ::testing::Combine(::testing::Range<std::uint64_t>(1, 7),
                                            ::testing::ValuesIn(kOvers)),
                         name_of_case);

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
      std::cout << "seed " << seed << '\n' << std::flush;  // a crash shows no more than this
    }
    for (const Over over : kOvers) {
      ASSERT_EQ(run_seed(seed, over), std::vector<std::string>{})
          << "YARD_SEED=" << seed << " over " << name_of_over(over);
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
