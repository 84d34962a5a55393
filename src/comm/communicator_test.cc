// SPDX-License-Identifier: Apache-2.0
// create(): ranks that are threads of one process join, over each arrangement of hosts.
#include "comm/communicator.h"

#include <cstring>
#include <numeric>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "comm/health/recorder.h"
#include "comm/rendezvous/memory_store.h"

namespace trainyard::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;
using ::testing::Not;

using HostOf = std::string (*)(std::int32_t rank);

std::string one_host(std::int32_t) {
  return "a";
}
std::string two_hosts(std::int32_t rank) {
  return rank % 2 == 0 ? "a" : "b";
}
std::string own_hosts(std::int32_t rank) {
  return std::to_string(rank);
}

using Body = std::function<void(Communicator&)>;

// Runs `body` as each rank of a world, on threads. `common` is for all.
void run_world_with(const CommunicatorOptions& common, std::int32_t size, HostOf host_of,
                    const Body& body) {
  MemoryStore store;
  std::vector<std::jthread> threads;
  for (std::int32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      CommunicatorOptions options = common;
      options.rank = rank;
      options.size = size;
      options.host = host_of(rank);
      options.join_timeout = seconds(30);
      auto communicator = Communicator::create(options, store);
      ASSERT_TRUE(communicator) << communicator.error().message;
      body(**communicator);
    });
  }
}

void run_world(std::int32_t size, HostOf host_of, const Body& body,
               milliseconds timeout = seconds(30)) {
  CommunicatorOptions common;
  common.timeout = timeout;
  run_world_with(common, size, host_of, body);
}

std::span<std::byte> bytes_of(std::vector<float>& values) {
  return std::as_writable_bytes(std::span(values));
}

Result<void> sum(Communicator& communicator, std::vector<float>& values) {
  return communicator.run({.kind = OpKind::kAllReduce,
                           .reduce = ReduceOp::kSum,
                           .input = {},
                           .output = bytes_of(values),
                           .counts = {},
                           .receive_counts = {},
                           .timeout = {},
                           .algorithm = {}});
}

std::string name_of_arrangement(std::size_t index) {
  return std::vector<std::string>{"One", "Two", "Own"}[index];
}

class CreateTest : public ::testing::TestWithParam<HostOf> {};
INSTANTIATE_TEST_SUITE_P(Hosts, CreateTest, ::testing::Values(one_host, two_hosts, own_hosts),
                         [](const auto& one) { return name_of_arrangement(one.index); });

TEST_P(CreateTest, SumsOverAllRanks) {
  run_world(5, GetParam(), [](Communicator& communicator) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{700001}}) {
      std::vector<float> values(count, static_cast<float>(communicator.rank() + 1));
      const auto done = sum(communicator, values);
      ASSERT_TRUE(done) << done.error().message;
      ASSERT_EQ(values, std::vector<float>(count, 15.0F)) << count;
    }
  });
}

TEST_P(CreateTest, SendsPassEachOtherByTag) {
  run_world(3, GetParam(), [](Communicator& communicator) {
    const std::int32_t next = (communicator.rank() + 1) % 3;
    const std::int32_t before = (communicator.rank() + 2) % 3;
    std::vector<Work> works;
    std::vector<std::vector<float>> out(2, std::vector<float>(300000, 0));
    std::vector<std::vector<float>> in(2, std::vector<float>(300000, 0));
    for (std::uint32_t tag : {0U, 1U}) {
      std::ranges::fill(out[tag],
                        static_cast<float>(communicator.rank() * 10) + static_cast<float>(tag));
      Operation send{.kind = OpKind::kSend,
                     .input = bytes_of(out[tag]),
                     .output = {},
                     .root = next,
                     .tag = tag,
                     .counts = {},
                     .receive_counts = {},
                     .timeout = {},
                     .algorithm = {}};
      works.push_back(*communicator.issue(send));
    }
    for (std::uint32_t tag : {1U, 0U}) {
      Operation receive{.kind = OpKind::kReceive,
                        .input = {},
                        .output = bytes_of(in[tag]),
                        .root = before,
                        .tag = tag,
                        .counts = {},
                        .receive_counts = {},
                        .timeout = {},
                        .algorithm = {}};
      works.push_back(*communicator.issue(receive));
    }
    for (Work& work : works) {
      const auto done = work.wait();
      ASSERT_TRUE(done) << done.error().message;
    }
    for (std::uint32_t tag : {0U, 1U}) {
      EXPECT_EQ(in[tag].back(), static_cast<float>(before * 10) + static_cast<float>(tag));
    }
  });
}

TEST_P(CreateTest, AnAbortEndsEveryRanksWaitWithinASecond) {
  run_world(4, GetParam(), [](Communicator& communicator) {
    if (communicator.rank() == 2) {
      communicator.abort("the loss is not a number");
      return;
    }
    const auto start = steady_clock::now();
    std::vector<float> values(100, 1.0F);
    const auto done = sum(communicator, values);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Code::kCancelled);
    EXPECT_THAT(done.error().message, HasSubstr("the loss is not a number"));
    EXPECT_LT(steady_clock::now() - start, seconds(1));
  });
}

TEST_P(CreateTest, RanksAgreeOnAnOperationElsewhereBeforeItBegins) {
  run_world(3, GetParam(), [](Communicator& communicator) {
    Signature signature{
        .kind = OpKind::kAllReduce, .dtype = DType::kF32, .reduce = ReduceOp::kSum, .count = 8};
    auto agreed = communicator.agree(signature, 32, seconds(30));
    ASSERT_TRUE(agreed);
    const auto all = agreed->wait();
    ASSERT_TRUE(all) << all.error().message;
    EXPECT_THAT(communicator.flight_record(), HasSubstr(R"("state":"started")"));
    communicator.end_elsewhere(signature.kind, agreed->sequence(), true);
    EXPECT_THAT(communicator.flight_record(), HasSubstr(R"("state":"completed")"));
    signature.count = communicator.rank() == 1 ? 8 : 9;
    // A rank that comes late may find the disagreement of the others.
    agreed = communicator.agree(signature, 36, seconds(30));
    const auto done = agreed ? agreed->wait() : Result<void>(agreed.error());
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Code::kConflict);
    EXPECT_THAT(done.error().message, HasSubstr("all_reduce of 8 float32"));
    EXPECT_THAT(done.error().message, HasSubstr("all_reduce of 9 float32"));
  });
}

// Rank 0 sends, rank 1 receives: only what they say of it.
Result<Work> agree_to_send(Communicator& communicator, std::uint64_t count, std::uint32_t tag,
                           milliseconds timeout = seconds(30)) {
  const bool is_sender = communicator.rank() == 0;
  const Signature signature{.kind = is_sender ? OpKind::kSend : OpKind::kReceive,
                            .dtype = DType::kF32,
                            .root = is_sender ? 1 : 0,
                            .count = count};
  return communicator.agree(signature, 4 * count, timeout, tag);
}

TEST_P(CreateTest, ASendElsewhereIsComparedWithItsReceive) {
  run_world(2, GetParam(), [](Communicator& communicator) {
    const bool is_sender = communicator.rank() == 0;
    // The receiver asks in the other order of tags.
    for (const std::uint32_t tag : {7U, 9U}) {
      const auto agreed = agree_to_send(communicator, 8, is_sender ? tag : 16 - tag);
      ASSERT_TRUE(agreed);
      ASSERT_TRUE(Work(*agreed).wait());
      EXPECT_THAT(communicator.flight_record(), HasSubstr(R"("state":"started")"));
      communicator.end_elsewhere(is_sender ? OpKind::kSend : OpKind::kReceive, agreed->sequence(),
                                 true);
      EXPECT_THAT(communicator.flight_record(), Not(HasSubstr(R"("state":"started")")));
    }
    static_cast<void>(agree_to_send(communicator, is_sender ? 8 : 9, 0));
    const auto deadline = steady_clock::now() + seconds(20);
    while (!communicator.fault() && steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    const auto fault = communicator.fault();
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->code, Code::kConflict);
    EXPECT_THAT(fault->message, HasSubstr("rank 1 has a receive of 9 float32 from rank 0"));
    EXPECT_THAT(fault->message, HasSubstr("rank 0 has 8 float32 for it"));
  });
}

TEST_P(CreateTest, ASendElsewhereThatIsGivenUpNamesItsPeer) {
  run_world(2, GetParam(), [](Communicator& communicator) {
    const Signature signature{.kind = OpKind::kSend, .dtype = DType::kF32, .root = 1, .count = 8};
    if (communicator.rank() == 0) {
      const Error error = communicator.give_up_elsewhere(1, signature, milliseconds(7));
      EXPECT_EQ(error.code, Code::kDeadline);
      EXPECT_THAT(error.message, HasSubstr("send of 8 float32 to rank 1 on rank 0"));
      EXPECT_THAT(error.message, HasSubstr("took longer than 7 ms"));
    }
  });
}

TEST_P(CreateTest, OperationsElsewhereAreComparedToo) {
  run_world(3, GetParam(), [](Communicator& communicator) {
    Signature signature{
        .kind = OpKind::kAllReduce, .dtype = DType::kF32, .reduce = ReduceOp::kSum, .count = 8};
    auto begun = communicator.begin_elsewhere(signature, 32);
    ASSERT_TRUE(begun);
    EXPECT_EQ(*begun, 1U);
    communicator.end_elsewhere(signature.kind, *begun, true);
    EXPECT_THAT(communicator.flight_record(), HasSubstr("completed"));
    ASSERT_TRUE(communicator.run(Operation{}));  // all have come so far
    signature.count = communicator.rank() == 1 ? 8 : 9;
    static_cast<void>(
        communicator.begin_elsewhere(signature, 36));  // or it finds the others' fault
    const auto deadline = steady_clock::now() + seconds(5);
    while (!communicator.fault() && steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    ASSERT_TRUE(communicator.fault());
    EXPECT_EQ(communicator.fault()->code, Code::kConflict);
    EXPECT_THAT(communicator.fault()->message, HasSubstr("of 9 float32"));
    EXPECT_FALSE(communicator.begin_elsewhere(signature, 36));
  });
}

TEST_P(CreateTest, AnOperationElsewhereThatIsGivenUpEndsAllRanks) {
  run_world(2, GetParam(), [](Communicator& communicator) {
    if (communicator.rank() == 1) {
      const auto deadline = steady_clock::now() + seconds(5);
      while (!communicator.fault() && steady_clock::now() < deadline) {
        std::this_thread::yield();
      }
      ASSERT_TRUE(communicator.fault());
      return;
    }
    const Signature signature{.kind = OpKind::kBarrier};
    const auto begun = communicator.begin_elsewhere(signature, 0);
    ASSERT_TRUE(begun);
    const Error error = communicator.give_up_elsewhere(*begun, signature, milliseconds(7));
    EXPECT_EQ(error.code, Code::kDeadline);
    EXPECT_THAT(error.message, HasSubstr("took longer than 7 ms on rank 0"));
    EXPECT_THAT(error.message, HasSubstr("heard in it from ranks: 0; not from: 1"));
  });
}

TEST_P(CreateTest, RanksThatDisagreeAreAllTold) {
  run_world(3, GetParam(), [](Communicator& communicator) {
    std::vector<float> values(communicator.rank() == 1 ? 8 : 9, 1.0F);
    const auto done = sum(communicator, values);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Code::kConflict);
    EXPECT_THAT(done.error().message, HasSubstr("of 8 float32"));
    EXPECT_THAT(done.error().message, HasSubstr("of 9 float32"));
  });
}

TEST_P(CreateTest, ARankThatDoesNotComeIsNamedAtTheTimeOut) {
  run_world(
      3, GetParam(),
      [](Communicator& communicator) {
        if (communicator.rank() == 1) {
          std::this_thread::sleep_for(milliseconds(900));
          return;
        }
        std::vector<float> values(10, 1.0F);
        const auto done = sum(communicator, values);
        ASSERT_FALSE(done);
        EXPECT_EQ(done.error().code, Code::kDeadline);
        EXPECT_THAT(done.error().message, HasSubstr("1"));
      },
      milliseconds(300));
}

// Two roots that both only send: no message shows it, the progress of the ranks does.
TEST_P(CreateTest, TwoRootsAreADisagreement) {
  run_world(2, GetParam(), [](Communicator& communicator) {
    std::vector<float> values(10, 1.0F);
    Operation broadcast{.kind = OpKind::kBroadcast,
                        .input = {},
                        .output = bytes_of(values),
                        .root = communicator.rank(),
                        .counts = {},
                        .receive_counts = {},
                        .timeout = {},
                        .algorithm = {}};
    Result<void> done = communicator.run(broadcast);
    const auto end = steady_clock::now() + seconds(3);
    while (done && steady_clock::now() < end) {
      std::this_thread::sleep_for(milliseconds(50));
      done = communicator.run({.kind = OpKind::kBarrier,
                               .input = {},
                               .output = {},
                               .counts = {},
                               .receive_counts = {},
                               .timeout = {},
                               .algorithm = {}});
    }
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Code::kConflict);
  });
}

Operation message(OpKind kind, std::int32_t peer, std::span<std::byte> bytes) {
  Operation operation;
  operation.kind = kind;
  operation.dtype = DType::kU8;
  operation.root = peer;
  if (kind == OpKind::kSend) {
    operation.input = bytes;
  } else {
    operation.output = bytes;
  }
  return operation;
}

// Longer than a transport waits before a connection that has ended is a fault.
constexpr milliseconds kLong{2500};

// Rank 1 has sent rank 0 something and is gone; rank 0 waits for rank 2.
TEST(Leaving, OfARankThatIsNotNeededEndsNothing) {
  run_world(3, own_hosts, [](Communicator& communicator) {
    std::vector<std::byte> byte(1);
    if (communicator.rank() == 2) {
      std::this_thread::sleep_for(kLong);
    }
    if (communicator.rank() > 0) {
      ASSERT_TRUE(communicator.run(message(OpKind::kSend, 0, byte)));
      return;
    }
    for (const std::int32_t peer : {1, 2}) {
      const auto done = communicator.run(message(OpKind::kReceive, peer, byte));
      ASSERT_TRUE(done) << done.error().message;
    }
    EXPECT_FALSE(communicator.fault());
  });
}

// After the 16th message rank 0 tells rank 1 that it may send more, and nobody is there.
TEST(Leaving, LeavesItsMessagesToThoseWhoAskLater) {
  run_world(3, own_hosts, [](Communicator& communicator) {
    std::vector<std::byte> bytes(4);
    if (communicator.rank() == 1) {
      for (int i = 0; i < 20; ++i) {
        ASSERT_TRUE(communicator.run(message(OpKind::kSend, 0, bytes)));
      }
      return;
    }
    std::this_thread::sleep_for(milliseconds(1500));  // rank 1 is gone by then
    if (communicator.rank() == 2) {
      std::this_thread::sleep_for(kLong);
      ASSERT_TRUE(communicator.run(message(OpKind::kSend, 0, bytes)));
      return;
    }
    const auto receive = [&](std::int32_t peer, int count) {
      for (int i = 0; i < count; ++i) {
        const auto done = communicator.run(message(OpKind::kReceive, peer, bytes));
        ASSERT_TRUE(done) << done.error().message;
      }
    };
    receive(1, 16);
    receive(2, 1);
    receive(1, 4);
    EXPECT_FALSE(communicator.fault());
  });
}

TEST(Allocate, GivesMemoryThatOperationsUseDirectly) {
  run_world(2, one_host, [](Communicator& communicator) {
    constexpr std::size_t kCount = 1 << 20;
    const auto memory = communicator.allocate(kCount * sizeof(float));
    ASSERT_TRUE(memory) << memory.error().message;
    const std::span values(reinterpret_cast<float*>(memory->get()), kCount);
    std::ranges::fill(values, 2.0F);
    for (int i = 0; i < 3; ++i) {
      const auto done = communicator.run({.kind = OpKind::kAllReduce,
                                          .reduce = ReduceOp::kSum,
                                          .input = {},
                                          .output = std::as_writable_bytes(values),
                                          .counts = {},
                                          .receive_counts = {},
                                          .timeout = {},
                                          .algorithm = {}});
      ASSERT_TRUE(done) << done.error().message;
    }
    EXPECT_EQ(values[kCount - 1], 16.0F);
  });
}

TEST(Create, RanksShowHowFarTheyAreInTheFolderOfTheOptions) {
  const TempDir folder = *TempDir::make();
  CommunicatorOptions options;
  options.status = folder.path();
  run_world_with(options, 2, one_host, [&](Communicator& communicator) {
    ASSERT_TRUE(communicator.run(Operation{}));
    const std::string file = "rank-" + std::to_string(communicator.rank()) + ".world";
    const auto progress = read_progress(folder.path() / file);
    ASSERT_TRUE(progress) << progress.error().message;
    EXPECT_EQ(progress->completed, 1U);
  });
}

TEST(Create, RanksMeetInTheFolderOfTheOptions) {
  const TempDir folder = *TempDir::make();
  CommunicatorOptions options;
  options.sockets = folder.path();
  run_world_with(options, 3, one_host, [](Communicator& communicator) {
    std::vector<float> values = {1.0F};
    EXPECT_TRUE(sum(communicator, values));
    EXPECT_EQ(values[0], 3.0F);
  });
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));  // none is left
}

// What watches the ranks already ends before what it refers to (AddressSanitizer).
TEST(Create, EndsWithTheErrorOfItsSweep) {
  MemoryStore store;
  std::vector<std::jthread> threads;
  for (const std::int32_t rank : {0, 1}) {
    threads.emplace_back([&store, rank] {
      CommunicatorOptions options;
      options.rank = rank;
      options.size = 2;
      options.host = "a";
      options.timeout = milliseconds(1);  // less than it takes to touch the memory
      options.sweep = seconds(1);
      const auto communicator = Communicator::create(options, store);
      ASSERT_FALSE(communicator);
      EXPECT_EQ(communicator.error().code, Code::kDeadline);
    });
  }
}

TEST(Create, AWorldOfOneWorksAlone) {
  run_world(1, one_host, [](Communicator& communicator) {
    std::vector<float> values = {1, 2};
    EXPECT_TRUE(sum(communicator, values));
    EXPECT_EQ(values[1], 2.0F);
  });
}

}  // namespace
}  // namespace trainyard::comm
