// SPDX-License-Identifier: Apache-2.0
// What ranks get when they disagree, when one does not come, when messages are lost, and when
// somebody ends it all.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "comm/run/explain.h"
#include "comm/transport/shm/peer_memory.h"
#include "testing/comm_world.h"

namespace trainyard::comm {
namespace {

using ::testing::HasSubstr;
using testing::LocalWorld;
using testing::make_local_communicators;

using Floats = std::array<float, 8>;

Operation sum_of(Floats& values) {
  return {.kind = OpKind::kAllReduce,
          .dtype = DType::kF32,
          .reduce = ReduceOp::kSum,
          .input = {},
          .output = std::as_writable_bytes(std::span(values)),
          .counts = {},
          .receive_counts = {},
          .timeout = std::nullopt,
          .algorithm = std::nullopt};
}

// What each rank gets for its operation, of its own values.
std::vector<Error> errors_of(LocalWorld& world,
                             const std::function<Operation(int rank, Floats&)>& make) {
  std::vector<Error> errors(world.ranks.size(), Error{Code::kInternal, "no error"});
  testing::on_all_ranks(world, [&](Communicator& communicator) {
    Floats values = {};
    const auto rank = static_cast<std::size_t>(communicator.rank());
    if (const auto done = communicator.run(make(communicator.rank(), values)); !done) {
      errors[rank] = done.error();
    }
  });
  return errors;
}

// Rank 0 runs an all-reduce of 8 float32; rank 1 what `change` makes of it.
void expect_conflict(const std::function<void(Operation&)>& change, const std::string& theirs) {
  LocalWorld world = make_local_communicators(2);
  const auto errors = errors_of(world, [&](int rank, Floats& values) {
    Operation operation = sum_of(values);
    if (rank == 1) {
      change(operation);
    }
    return operation;
  });
  for (const Error& error : errors) {
    EXPECT_EQ(error.code, Code::kConflict);
    EXPECT_THAT(error.message, HasSubstr("the ranks of 'world' disagree"));
    EXPECT_THAT(error.message, HasSubstr("operation 1, all_reduce of 8 float32 (sum)"));
    EXPECT_THAT(error.message, HasSubstr(theirs));
  }
}

TEST(Disagreement, OfKinds) {
  expect_conflict(
      [](Operation& operation) {
        operation.kind = OpKind::kAllGather;
        operation.reduce = ReduceOp::kNone;
        operation.input = operation.output.subspan(operation.output.size() / 2);
      },
      "all_gather of 8 float32");
}

TEST(Disagreement, OfDTypes) {
  expect_conflict([](Operation& operation) { operation.dtype = DType::kI32; },
                  "all_reduce of 8 int32 (sum)");
}

TEST(Disagreement, OfCounts) {
  expect_conflict([](Operation& operation) { operation.output = operation.output.first(16); },
                  "all_reduce of 4 float32 (sum)");
}

TEST(Disagreement, OfReductions) {
  expect_conflict([](Operation& operation) { operation.reduce = ReduceOp::kMax; },
                  "all_reduce of 8 float32 (max)");
}

// Both roots are satisfied with what they got or only send: it shows in the next operation (or, in
// a world of processes, in the heartbeats).
TEST(Disagreement, OfRoots) {
  LocalWorld world = make_local_communicators(3);
  std::vector<Error> errors(3);
  testing::on_all_ranks(world, [&](Communicator& communicator) {
    Floats values = {};
    Operation operation = sum_of(values);
    const std::int32_t rank = communicator.rank();
    operation.kind = OpKind::kReduce;
    operation.root = rank == 2 ? 1 : 0;
    operation.input = operation.output;
    operation.output = rank == 0 ? operation.output : std::span<std::byte>();
    Result<void> done = communicator.run(operation);
    if (done) {
      done = communicator.run(sum_of(values));
    }
    errors[static_cast<std::size_t>(rank)] = done.error();
  });
  for (const Error& error : errors) {
    EXPECT_EQ(error.code, Code::kConflict);
    EXPECT_THAT(error.message, HasSubstr("rank 2 is in operation "));
    EXPECT_THAT(error.message, HasSubstr("operation 1, reduce of 8 float32 (sum), root "));
  }
}

TEST(Disagreement, OfSequenceNumbers) {
  LocalWorld world = make_local_communicators(2);
  testing::on_all_ranks(world, [](Communicator& communicator) {
    Floats values = {};
    if (communicator.rank() == 0) {
      Operation broadcast = sum_of(values);
      broadcast.kind = OpKind::kBroadcast;
      broadcast.reduce = ReduceOp::kNone;
      broadcast.root = 0;
      ASSERT_TRUE(communicator.run(broadcast));  // the root need not wait for anyone
    }
    const auto done = communicator.run(sum_of(values));
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Code::kConflict);
  });
}

// Rank 0 sends `sent` elements to rank 1, which expects `wanted`.
void expect_uneven_conflict(std::uint64_t sent, std::uint64_t wanted, std::size_t piece_bytes = 0) {
  SCOPED_TRACE(fmt::format("{} sent, {} wanted, pieces of {} bytes", sent, wanted, piece_bytes));
  LocalWorld world = make_local_communicators(2);
  testing::on_all_ranks(world, [&](Communicator& communicator) {
    std::vector<float> values(std::max(sent, wanted));
    Operation operation{.kind = OpKind::kAllToAll,
                        .dtype = DType::kF32,
                        .input = {},
                        .output = {},
                        .counts = {},
                        .receive_counts = {},
                        .timeout = std::chrono::seconds(20),
                        .algorithm = Algorithm::kDirect,
                        .piece_bytes = piece_bytes};
    const bool is_first = communicator.rank() == 0;
    operation.counts = is_first ? std::vector<std::uint64_t>{0, sent} : std::vector{0UL, 0UL};
    operation.receive_counts =
        is_first ? std::vector{0UL, 0UL} : std::vector<std::uint64_t>{wanted, 0};
    const std::span<std::byte> bytes = std::as_writable_bytes(std::span(values));
    operation.input = bytes.first(is_first ? sent * 4 : 0);
    operation.output = bytes.last(is_first ? 0 : wanted * 4);
    const Result<void> done = communicator.run(operation);
    // What rank 0 gets from rank 1 is right, so it may be through before it hears of it.
    if (!is_first) {
      ASSERT_FALSE(done);
      EXPECT_EQ(done.error().code, Code::kConflict);
      EXPECT_THAT(done.error().message,
                  HasSubstr("disagree in operation 1, all_to_all of uneven counts of float32"));
    }
  });
}

TEST(Disagreement, OfUnevenCounts) {
  expect_uneven_conflict(2, 1);
  expect_uneven_conflict(1, 2);
  expect_uneven_conflict(0, 1);
  expect_uneven_conflict(1, 0);
}

// A schedule cuts such slices every 16,384 elements.
TEST(Disagreement, OfUnevenCountsBeyondOneChunk) {
  constexpr std::uint64_t kChunk = 16'384;
  for (const std::uint64_t sent :
       {std::uint64_t{0}, kChunk - 1, kChunk, kChunk + 1, kChunk + 2, 2 * kChunk, 3 * kChunk + 5}) {
    for (const std::uint64_t wanted :
         {std::uint64_t{0}, kChunk, kChunk + 1, kChunk + 3, 2 * kChunk, 2 * kChunk + 1}) {
      for (const std::size_t piece_bytes : {std::size_t{0}, std::size_t{2'048}}) {
        if (sent != wanted) {
          expect_uneven_conflict(sent, wanted, piece_bytes);
        }
      }
    }
  }
}

TEST(Disagreement, OfAlgorithms) {
  LocalWorld world = make_local_communicators(2);
  const auto errors = errors_of(world, [](int rank, Floats& values) {
    Operation operation = sum_of(values);
    operation.algorithm = rank == 0 ? Algorithm::kDirect : Algorithm::kDirectSmall;
    return operation;
  });
  EXPECT_EQ(errors[0].code, Code::kConflict);
  EXPECT_THAT(errors[0].message, HasSubstr("their counts or algorithms differ"));
}

TEST(TimeOut, NamesThoseWhoCameAndThoseWhoDidNot) {
  LocalWorld world = make_local_communicators(3, {.timeout = std::chrono::milliseconds(50)});
  std::vector<Error> errors(2);
  testing::on_all_ranks(world, [&](Communicator& communicator) {
    Floats values = {};
    if (communicator.rank() < 2) {
      Operation operation = sum_of(values);
      if (communicator.rank() == 1) {  // so that there is a first one
        operation.timeout = std::chrono::seconds(20);
      }
      errors[static_cast<std::size_t>(communicator.rank())] = communicator.run(operation).error();
    }
  });
  EXPECT_EQ(errors[0].code, Code::kDeadline);
  EXPECT_EQ(errors[0].message, errors[1].message);  // the first one is everybody's
  EXPECT_THAT(errors[0].message,
              HasSubstr("operation 1 of 'world', all_reduce of 8 float32 (sum) (32 bytes), took "
                        "longer than 50 ms on rank "));
  EXPECT_THAT(errors[0].message, HasSubstr("not from: 2"));
}

// What a rank knows of others, as told by a test.
struct KnownBoard final : ProgressBoard {
  void note_issued(std::uint64_t, const Signature&) override {}
  void note_started(std::uint64_t) override {}
  void note_completed(std::uint64_t) override {}
  std::optional<std::uint64_t> last_issued(std::int32_t rank) const override {
    return rank == 1 ? std::optional<std::uint64_t>(1) : std::nullopt;
  }
  bool has_left(std::int32_t rank) const override { return rank == 1 && is_gone; }

  std::atomic<bool> is_gone = false;
};

TEST(TimeOut, CountsThoseAsComeWhoHaveIssuedIt) {
  LocalWorld world = make_local_communicators(
      3, {.timeout = std::chrono::milliseconds(30), .board = std::make_shared<KnownBoard>()});
  Floats values = {};
  const auto done = world[0].run(sum_of(values));
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("heard in it from ranks: 1; not from: 2"));
}

Operation message(OpKind kind, std::int32_t peer, std::span<std::byte> bytes) {
  Floats none = {};
  Operation operation = sum_of(none);
  operation.kind = kind;
  operation.dtype = DType::kU8;
  operation.reduce = ReduceOp::kNone;
  operation.root = peer;
  operation.input = kind == OpKind::kSend ? bytes : std::span<std::byte>();
  operation.output = kind == OpKind::kSend ? std::span<std::byte>() : bytes;
  return operation;
}

TEST(Leaving, EndsWhatWaitsForTheRank) {
  for (const OpKind kind : {OpKind::kReceive, OpKind::kSend}) {
    const auto board = std::make_shared<KnownBoard>();
    LocalWorld world = make_local_communicators(2, {.board = board});
    std::vector<std::byte> bytes(50'000);  // too many to go unasked
    Work work = world[0].issue(message(kind, 1, bytes)).value();
    board->is_gone = true;
    const auto done = work.wait();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Code::kUnavailable);
    EXPECT_THAT(done.error().message,
                HasSubstr("on rank 0 of 'world' never ends: rank 1 has left"));
  }
}

TEST(Leaving, LeavesWhatWasSentBefore) {
  const auto board = std::make_shared<KnownBoard>();
  LocalWorld world = make_local_communicators(2, {.board = board});
  std::vector<std::byte> bytes(100);
  ASSERT_TRUE(world[1].run(message(OpKind::kSend, 0, bytes)));
  board->is_gone = true;
  EXPECT_TRUE(world[0].run(message(OpKind::kReceive, 1, bytes)));
}

TEST(TimeOut, IsThatOfTheOperationWhenItHasOne) {
  LocalWorld world = make_local_communicators(2);
  Floats values = {};
  Operation operation = sum_of(values);
  operation.timeout = std::chrono::milliseconds(20);
  const auto done = world[0].run(operation);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kDeadline);
}

TEST(TimeOut, SaysWhereSilentRanksWereSeenLast) {
  const Error error = overdue(
      {.communicator = "tp", .rank = 1, .label = {.sequence = 9, .signature = {}}},
      {.timeout = std::chrono::milliseconds(1500),
       .bytes = 4096,
       .peer = 2,
       .heard = {0, 3},
       .silent = {{.rank = 2, .last_issued = 7}, {.rank = 4, .last_issued = std::nullopt}}});
  EXPECT_EQ(error.code, Code::kDeadline);
  EXPECT_EQ(error.message,
            "operation 9 of 'tp', barrier (4096 bytes), took longer than 1500 ms on rank 1, which "
            "waits for rank 2; heard in it from ranks: 0, 3; not from: 2 (last in operation 7), 4");
}

TEST(Loss, OfMessagesEndsInATimeOut) {
  LocalWorld world = make_local_communicators(2, {.timeout = std::chrono::milliseconds(50)});
  world.network->lose(1);
  const auto errors = errors_of(world, [](int, Floats& values) { return sum_of(values); });
  EXPECT_EQ(errors[0].code, Code::kDeadline);
  EXPECT_THAT(errors[0].message, HasSubstr("not from: 1"));
}

TEST(Abort, EndsWhatRunsOnAllRanks) {
  LocalWorld world = make_local_communicators(3);
  const auto begin = std::chrono::steady_clock::now();
  testing::on_all_ranks(world, [](Communicator& communicator) {
    Floats values = {};
    if (communicator.rank() == 2) {
      communicator.abort("loss is not a number");
      return;
    }
    const auto done = communicator.run(sum_of(values));
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Code::kCancelled);
    EXPECT_EQ(done.error().message, "'world' was aborted by rank 2: loss is not a number");
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
}

TEST(Abort, EndsSendsAndWhatIsQueued) {
  LocalWorld world = make_local_communicators(2);
  Floats values = {};
  Operation receive = sum_of(values);
  receive.kind = OpKind::kReceive;
  receive.reduce = ReduceOp::kNone;
  receive.root = 1;
  Floats others[2] = {};
  std::vector<Work> works = {world[0].issue(receive).value(),
                             world[0].issue(sum_of(others[0])).value(),
                             world[0].issue(sum_of(others[1])).value()};
  world[1].abort("enough");
  for (Work& work : works) {
    const auto done = work.wait();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Code::kCancelled);
  }
}

TEST(Fault, ClosesTheCommunicator) {
  LocalWorld world = make_local_communicators(2);
  world[0].abort("over");
  Floats values = {};
  Operation send = sum_of(values);
  send.kind = OpKind::kSend;
  send.reduce = ReduceOp::kNone;
  send.root = 0;
  send.input = send.output;
  send.output = {};
  for (const Error& error :
       {world[1].run(sum_of(values)).error(), world[1].issue(sum_of(values)).error(),
        world[1].run(send).error(), world[1].issue(send).error()}) {
    EXPECT_EQ(error.message, "'world' was aborted by rank 0: over");
  }
}

TEST(Fault, IsNoneWhenADescriptionIsWrong) {
  LocalWorld world = make_local_communicators(2);
  const auto errors = errors_of(world, [](int, Floats& values) {
    Operation operation = sum_of(values);
    operation.reduce = ReduceOp::kBitAnd;
    return operation;
  });
  EXPECT_EQ(errors[0].code, Code::kInvalidArgument);
  const auto after = errors_of(world, [](int, Floats& values) { return sum_of(values); });
  EXPECT_EQ(after[1].message, "no error");
}

TEST(Fault, IsNoneWhenAnAlgorithmIsNotThere) {
  LocalWorld world = make_local_communicators(2);
  const auto errors = errors_of(world, [](int, Floats& values) {
    Operation operation = sum_of(values);
    operation.algorithm = Algorithm::kTwoLevel;
    return operation;
  });
  EXPECT_EQ(errors[0].message, "all_reduce: there is no two_level algorithm for it in this world");
}

TEST(Fault, ShowsInTheFlightRecord) {
  LocalWorld world = make_local_communicators(2);
  ASSERT_EQ(errors_of(world, [](int, Floats& values) { return sum_of(values); })[0].message,
            "no error");
  Floats values = {};
  Operation operation = sum_of(values);
  operation.timeout = std::chrono::milliseconds(10);
  EXPECT_FALSE(world[0].run(operation));
  const std::string record = world[0].flight_record();
  EXPECT_THAT(record, HasSubstr(R"("sequence":1,"op":"all_reduce")"));
  EXPECT_THAT(record, HasSubstr(R"("state":"completed")"));
  EXPECT_THAT(record, HasSubstr(R"("state":"failed")"));
}

Operation copy_of(std::span<std::byte> values) {
  Operation operation;
  operation.kind = OpKind::kBroadcast;
  operation.dtype = DType::kU8;
  operation.root = 0;
  operation.algorithm = Algorithm::kSingleCopy;
  operation.output = values;
  return operation;
}

// Memory of which others can read the first and the last page only.
class Torn {
 public:
  Torn()
      : page_(static_cast<std::size_t>(getpagesize())),
        memory_(static_cast<std::byte*>(
            mmap(nullptr, 3 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    EXPECT_EQ(mprotect(memory_ + page_, page_, PROT_NONE), 0);
  }
  ~Torn() { munmap(memory_, 3 * page_); }
  Torn(const Torn&) = delete;
  Torn& operator=(const Torn&) = delete;
  std::span<std::byte> bytes() const { return {memory_, 3 * page_}; }

 private:
  std::size_t page_;
  std::byte* memory_;
};

// A broadcast by one copy does not touch the root's memory there.
TEST(MemoryOfAPeer, ThatIsNotThereAnyMoreEndsTheOperation) {
  if (!reaches(OwnMemory().card())) {
    GTEST_SKIP() << "the kernel lets no process read another one here";
  }
  const Torn torn;
  LocalWorld world = testing::make_shared_memory_communicators(2);
  std::vector<Error> errors(2, Error{Code::kInternal, "no error"});

  testing::on_all_ranks(world, [&](Communicator& communicator) {
    std::vector<std::byte> values(torn.bytes().size());
    const std::span<std::byte> buffer = communicator.rank() == 0 ? torn.bytes() : values;
    if (const auto done = communicator.run(copy_of(buffer)); !done) {
      errors[static_cast<std::size_t>(communicator.rank())] = done.error();
    }
  });

  EXPECT_TRUE(world[0].copies_once());
  for (const Error& error : errors) {
    EXPECT_EQ(error.code, Code::kUnavailable);
    EXPECT_THAT(error.message, HasSubstr("rank 1 cannot read the memory of rank 0 any more"));
  }
}

}  // namespace
}  // namespace trainyard::comm
