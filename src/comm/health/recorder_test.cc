// SPDX-License-Identifier: Apache-2.0
#include "comm/health/recorder.h"

#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "base/file.h"

namespace trainyard::comm {
namespace {

const Signature kSum{
    .kind = OpKind::kAllReduce, .dtype = DType::kF32, .reduce = ReduceOp::kSum, .count = 1024};

std::unique_ptr<Recorder> in_memory() {
  return *Recorder::create("world", 3, nullptr);
}

void record(Recorder& recorder, std::uint64_t sequence) {
  recorder.issued(sequence, kSum, 4096);
  recorder.started(sequence);
  recorder.ended(sequence, true);
}

TEST(Recorder, SaysHowFarEachOperationCame) {
  const auto recorder = in_memory();
  record(*recorder, 1);
  recorder->issued(2, kSum, 4096);
  recorder->started(2);
  recorder->issued(3, Signature{}, 0);

  EXPECT_EQ(recorder->last_issued(), 3U);
  EXPECT_EQ(recorder->last_started(), 2U);
  EXPECT_EQ(recorder->last_completed(), 1U);
  const auto operations = recorder->snapshot();
  ASSERT_EQ(operations.size(), 3U);
  EXPECT_EQ(operations[0].state, OpState::kCompleted);
  EXPECT_EQ(operations[0].signature, kSum);
  EXPECT_EQ(operations[1].state, OpState::kStarted);
  EXPECT_EQ(operations[2].state, OpState::kIssued);
  EXPECT_EQ(operations[2].started_us, 0);
}

TEST(Recorder, GivesTimesOfTheSteadyClock) {
  const auto now_us = [] {
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  const auto recorder = in_memory();
  const std::int64_t before = now_us();
  record(*recorder, 1);
  while (now_us() < before + 20'000) {
  }
  record(*recorder, 2);
  const std::int64_t after = now_us();
  const auto operations = recorder->snapshot();
  EXPECT_NEAR(operations[0].issued_us, before, 5'000);
  EXPECT_NEAR(operations[1].ended_us, after, 5'000);
  EXPECT_LE(operations[1].issued_us, operations[1].ended_us);
}

TEST(Recorder, KeepsTheLast4096) {
  const auto recorder = in_memory();
  for (std::uint64_t sequence = 1; sequence <= 5000; ++sequence) {
    record(*recorder, sequence);
  }
  const auto operations = recorder->snapshot();
  ASSERT_EQ(operations.size(), Recorder::kCapacity);
  EXPECT_EQ(operations.front().sequence, 5000 - Recorder::kCapacity + 1);
  EXPECT_EQ(operations.back().sequence, 5000U);
}

TEST(Recorder, WritesOneJsonObjectALine) {
  const auto recorder = in_memory();
  recorder->issued(7, kSum, 4096);
  recorder->ended(7, false);
  const std::string lines = recorder->to_json_lines();
  EXPECT_EQ(
      lines.find(
          R"({"communicator":"world","rank":3,"sequence":7,"op":"all_reduce","dtype":"float32",)"
          R"("reduce":"sum","count":1024,"uneven":false,"root":-1,"bytes":4096,)"
          R"("state":"failed",)"),
      0U)
      << lines;
  EXPECT_EQ(lines.back(), '\n');
}

TEST(Recorder, IsReadableByOthersWhileItRuns) {
  const auto folder = TempDir::make();
  ASSERT_TRUE(folder);
  const Path file = folder->path() / "rank-3.pair_of_0";
  {
    const auto recorder = Recorder::create("pair/of_0", 3, &folder->path());
    ASSERT_TRUE(recorder);
    record(**recorder, 1);
    (*recorder)->issued(2, kSum, 4096);
    const auto progress = read_progress(file);
    ASSERT_TRUE(progress);
    EXPECT_EQ(progress->issued, 2U);
    EXPECT_EQ(progress->started, 1U);
    EXPECT_EQ(progress->completed, 1U);
  }
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(Recorder, RefusesFilesThatAreNoRecord) {
  const auto folder = TempDir::make();
  ASSERT_TRUE(folder);
  const Path file = folder->path() / "rank-0.world";
  ASSERT_TRUE(write_file(file, "short"));
  EXPECT_EQ(read_progress(file).error().code, Code::kCorrupt);
  ASSERT_TRUE(write_file(file, std::string("yardrec1\x02\0\0\0\0\0\0\0", 16) + std::string(64, 0)));
  EXPECT_EQ(read_progress(file).error().message,
            file.string() + " is a flight record of version 2, not 1");
}

// What is performed elsewhere ends in any order, on any thread.
TEST(Recorder, NeverTakesBackWhatIsComplete) {
  constexpr std::uint64_t kThreads = 4;
  constexpr std::uint64_t kLast = 100'000;
  const auto recorder = in_memory();
  std::vector<std::jthread> threads;
  for (std::uint64_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::uint64_t sequence = 1 + thread; sequence <= kLast; sequence += kThreads) {
        recorder->ended(sequence, true);
      }
    });
  }
  std::uint64_t seen = 0;
  while (seen < kLast) {
    const std::uint64_t now = recorder->last_completed();
    ASSERT_GE(now, seen);
    seen = now;
  }
  threads.clear();
  EXPECT_EQ(recorder->last_completed(), kLast);
}

TEST(Recorder, LeavesOutWhatIsBeingWritten) {
  const auto recorder = in_memory();
  std::jthread writer([&](const std::stop_token& stop) {
    for (std::uint64_t sequence = 1; !stop.stop_requested(); ++sequence) {
      recorder->issued(sequence, Signature{.count = sequence}, sequence);
    }
  });
  for (int i = 0; i < 50; ++i) {
    for (const RecordedOp& operation : recorder->snapshot()) {
      ASSERT_EQ(operation.signature.count, operation.sequence);
      ASSERT_EQ(operation.bytes, operation.sequence);
    }
  }
}

}  // namespace
}  // namespace trainyard::comm
