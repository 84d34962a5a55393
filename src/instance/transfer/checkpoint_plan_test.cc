// SPDX-License-Identifier: Apache-2.0
#include "instance/transfer/checkpoint_plan.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::instance {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using Kind = TransferEnd::Kind;

constexpr MirrorTimes kTimes;

// One plan, and the time.
class MirrorPlanTest : public testing::Test {
 protected:
  static FileState state(int version) {
    return {.size = 10, .mtime_ns = version, .inode = static_cast<std::uint64_t>(version)};
  }
  void pass(Duration time) { now_ += time; }
  void saw(const std::string& path, int version, Writer writer = Writer::kClosed) {
    plan_.saw(path, state(version), writer, now_);
  }
  MirrorActions next(bool is_final = false) { return plan_.next(8, is_final, now_); }
  std::vector<std::string> sent() {
    std::vector<std::string> paths;
    for (const Upload& upload : next().uploads) {
      paths.push_back(upload.path);
    }
    return paths;
  }
  // Sends what is due; each file is what `version` says.
  std::vector<std::string> send(int version) {
    std::vector<std::string> paths;
    for (const Upload& upload : next().uploads) {
      paths.push_back(upload.path);
      finish(upload, version);
    }
    return paths;
  }
  void finish(const Upload& upload, int version) {
    plan_.uploaded(upload, {.stored = {.etag = std::to_string(version), .state = state(version)}},
                   now_);
  }
  void fail(const Upload& upload, Kind kind) { plan_.uploaded(upload, {.kind = kind}, now_); }

  SteadyTime now_ = SteadyTime(std::chrono::hours(1));
  MirrorPlan plan_{kTimes, {}, now_};
};

TEST_F(MirrorPlanTest, SendsAClosedFileOnceItHasSettled) {
  saw("a", 1);
  EXPECT_THAT(next().uploads, IsEmpty());
  EXPECT_EQ(next().wake, now_ + kTimes.settle);
  pass(kTimes.settle);
  EXPECT_THAT(send(1), ElementsAre("a"));
  pass(kTimes.force_after);
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_TRUE(plan_.is_idle());
}

TEST_F(MirrorPlanTest, WaitsForTheCloseOfAFileThatIsHeldOpen) {
  saw("a", 1);
  pass(kTimes.settle);
  send(1);
  saw("a", 2, Writer::kUnknown);
  pass(kTimes.patience);
  Upload upload = next().uploads.at(0);
  EXPECT_TRUE(upload.has_object);
  fail(upload, Kind::kHeldOpen);
  EXPECT_EQ(plan_.lag(now_).files, 0u) << "it is not late, it is being written";
  EXPECT_EQ(plan_.lag(now_, /*is_final=*/true).files, 1u);
  EXPECT_THAT(sent(), IsEmpty());
  pass(kTimes.quiet);
  upload = next().uploads.at(0);
  fail(upload, Kind::kHeldOpen);
  saw("a", 3);
  EXPECT_THAT(sent(), IsEmpty()) << "the close may be that of a kill";
  pass(kTimes.settle);
  EXPECT_THAT(send(3), ElementsAre("a"));
}

TEST_F(MirrorPlanTest, SendsAFileThatIsHeldOpenForTooLong) {
  saw("a", 1);
  pass(kTimes.settle);
  send(1);
  saw("a", 2, Writer::kOpen);
  const Duration longest = kTimes.open_quiet + kTimes.force_after;
  for (Duration waited{0}; waited < longest; waited += kTimes.quiet) {
    for (const Upload& upload : next().uploads) {
      EXPECT_FALSE(upload.torn_is_fine);
      fail(upload, Kind::kHeldOpen);
    }
    pass(kTimes.quiet);
  }
  EXPECT_TRUE(next().uploads.at(0).torn_is_fine);
}

TEST_F(MirrorPlanTest, DoesNotSendWhatAKillHasTornUntilItChanges) {
  saw("a", 1);
  saw("long-closed", 1);
  pass(kTimes.settle);
  send(1);
  saw("long-closed", 2);
  pass(kTimes.kill_window + Duration(1));
  saw("a", 2);
  saw("new", 1);
  EXPECT_THAT(plan_.closed_lately(plan_.replacing(), now_), ElementsAre("a"));
  plan_.torn_by_kill({"a"});
  EXPECT_THAT(next(/*is_final=*/true).uploads, SizeIs(2));
  EXPECT_FALSE(plan_.stored().contains("a")) << "the next attempt fetches it";
  saw("a", 3);
  EXPECT_THAT(next(/*is_final=*/true).uploads, SizeIs(1));
}

TEST_F(MirrorPlanTest, WaitsLongerForAFileThatNobodyHasClosed) {
  saw("a", 1, Writer::kUnknown);
  saw("b", 1, Writer::kOpen);
  pass(kTimes.quiet);
  EXPECT_THAT(sent(), ElementsAre("a"));
  pass(kTimes.open_quiet);
  EXPECT_THAT(sent(), ElementsAre("b"));
}

TEST_F(MirrorPlanTest, SendsAFileThatNeverRestsNowAndThen) {
  int version = 0;
  std::vector<int> sent_versions;
  for (int i = 0; i < 300; ++i) {  // 30 s of a change every 100 ms
    saw("a", ++version);
    if (!send(version).empty()) {
      sent_versions.push_back(version);
    }
    pass(Duration(100));
  }
  EXPECT_THAT(sent_versions, SizeIs(testing::AllOf(testing::Ge(2u), testing::Le(4u))));
}

TEST_F(MirrorPlanTest, TakesATornReadingOnlyWhenNothingElseHelps) {
  saw("a", 1);
  for (Duration time{0}; time < kTimes.force_after; time += Duration(1000)) {
    saw("a", static_cast<int>(time.count()) + 2);
    for (const Upload& upload : next().uploads) {
      EXPECT_FALSE(upload.torn_is_fine);
      fail(upload, Kind::kTorn);
    }
    pass(Duration(1000));
  }
  pass(kTimes.force_after);
  const MirrorActions actions = next();
  ASSERT_THAT(actions.uploads, SizeIs(1));
  EXPECT_TRUE(actions.uploads[0].torn_is_fine);
}

TEST_F(MirrorPlanTest, TakesNoTornReadingBecauseTheStoreWasAway) {
  saw("a", 1);
  pass(kTimes.settle);
  send(1);
  saw("a", 2, Writer::kUnknown);
  pass(kTimes.quiet);
  fail(next().uploads.at(0), Kind::kTorn);
  saw("a", 3);
  for (Duration away{0}; away < kTimes.force_after * 2; away += kTimes.last_retry) {
    for (const Upload& upload : next().uploads) {
      EXPECT_FALSE(upload.torn_is_fine);
      fail(upload, Kind::kStoreFailed);
    }
    pass(kTimes.last_retry);
  }
  saw("a", 4, Writer::kOpen);
  EXPECT_THAT(sent(), IsEmpty()) << "it was opened just now";
  pass(kTimes.open_quiet);
  const Upload upload = next().uploads.at(0);
  EXPECT_FALSE(upload.torn_is_fine);
  fail(upload, Kind::kHeldOpen);
  saw("a", 5);
  pass(kTimes.settle);
  EXPECT_THAT(send(5), ElementsAre("a"));
}

// Another file shows that the store is away: this one is not even tried.
TEST_F(MirrorPlanTest, CountsNoTimeInWhichAnotherFileTriesTheStore) {
  saw("a", 1);
  pass(kTimes.settle);
  send(1);
  saw("a", 2, Writer::kOpen);
  pass(kTimes.open_quiet);
  fail(next().uploads.at(0), Kind::kHeldOpen);
  saw("b", 1);
  pass(kTimes.settle);
  fail(next().uploads.at(0), Kind::kStoreFailed);
  pass(kTimes.force_after - Duration(1));
  const Upload upload = next().uploads.at(0);
  EXPECT_EQ(upload.path, "a");
  EXPECT_FALSE(upload.torn_is_fine);
}

TEST_F(MirrorPlanTest, TakesNoTornReadingOfAFileThatRestsBetweenItsSaves) {
  saw("a", 1);
  pass(kTimes.settle);
  send(1);
  for (const bool is_told_first : {false, true, false, true}) {
    saw("a", 2);
    pass(kTimes.settle);
    const Upload upload = next().uploads.at(0);
    EXPECT_FALSE(upload.torn_is_fine);
    pass(kTimes.force_after);  // it is that large; then it is saved once more
    if (is_told_first) {
      saw("a", 3, Writer::kUnknown);
    }
    fail(upload, Kind::kTorn);
  }
}

TEST_F(MirrorPlanTest, NeverSendsATemporaryNameThatIsRenamedAtOnce) {
  saw("a.tmp", 1);
  pass(kTimes.settle / 2);
  plan_.gone("a.tmp", now_);
  saw("a", 1);
  pass(kTimes.settle);
  EXPECT_THAT(send(1), ElementsAre("a"));
  EXPECT_THAT(next().removals, IsEmpty());
  EXPECT_TRUE(plan_.is_idle());
}

TEST_F(MirrorPlanTest, RemovesATemporaryNameThatWasSent) {
  saw("a.tmp", 1);
  pass(kTimes.settle);
  const Upload upload = next().uploads.at(0);
  plan_.gone("a.tmp", now_);
  EXPECT_TRUE(plan_.is_outdated(upload));
  finish(upload, 1);
  const MirrorActions actions = next();
  ASSERT_THAT(actions.removals, SizeIs(1));
  EXPECT_EQ(actions.removals[0].path, "a.tmp");
  EXPECT_EQ(actions.removals[0].etag, "1");
  plan_.removed(actions.removals[0], {}, now_);
  EXPECT_TRUE(plan_.is_idle());
}

TEST_F(MirrorPlanTest, SendsAgainWhatChangedWhileItWasSent) {
  saw("a", 1);
  pass(kTimes.settle);
  const Upload upload = next().uploads.at(0);
  saw("a", 2);
  finish(upload, 1);
  pass(kTimes.settle);
  EXPECT_THAT(send(2), ElementsAre("a"));
  EXPECT_TRUE(plan_.is_idle());
}

TEST_F(MirrorPlanTest, SendsAgainWhatAWriterHasClosedEvenWithTheSameSizeAndTime) {
  saw("a", 1);
  pass(kTimes.settle);
  send(1);
  saw("a", 1, Writer::kClosed);  // through a memory map, say
  pass(kTimes.settle);
  EXPECT_THAT(sent(), ElementsAre("a"));
}

TEST_F(MirrorPlanTest, SendsAgainWhatWasReadWithinTheResolutionOfFileTimes) {
  saw("a", 1);
  pass(kTimes.settle);
  const Upload upload = next().uploads.at(0);
  plan_.uploaded(upload, {.stored = {.etag = "1", .state = state(1)}, .is_settled = false}, now_);
  pass(kTimes.settle);
  EXPECT_THAT(send(1), ElementsAre("a"));
}

TEST_F(MirrorPlanTest, SendsTheNewBeforeItRemovesTheOld) {
  saw("old", 1);
  pass(kTimes.settle);
  send(1);
  saw("new", 2);
  pass(Duration(1));
  plan_.gone("old", now_);
  EXPECT_THAT(next().removals, IsEmpty());
  pass(kTimes.settle);
  const MirrorActions actions = next();
  EXPECT_THAT(actions.removals, IsEmpty());
  fail(actions.uploads.at(0), Kind::kStoreFailed);
  pass(kTimes.last_retry);
  EXPECT_THAT(send(2), ElementsAre("new"));
  EXPECT_THAT(next().removals, SizeIs(1));
}

TEST_F(MirrorPlanTest, RemovesOnlyWhatThisHostHasPutOrRestored) {
  MirrorPlan plan(kTimes, {{"restored", {.etag = "e", .state = state(1)}}}, now_);
  plan.saw("never-sent", state(2), Writer::kOpen, now_);
  plan.scanned({}, "", Writer::kUnknown, now_);
  const MirrorActions actions = plan.next(8, false, now_);
  ASSERT_THAT(actions.removals, SizeIs(1));
  EXPECT_EQ(actions.removals[0].path, "restored");
  EXPECT_EQ(actions.removals[0].etag, "e");
}

TEST_F(MirrorPlanTest, SendsNothingOfWhatWasRestoredAndDidNotChange) {
  MirrorPlan plan(kTimes, {{"a", {.etag = "e", .state = state(1)}}}, now_);
  TreeScan scan;
  scan.files = {{"a", state(1)}};
  plan.scanned(scan, "", Writer::kUnknown, now_);
  EXPECT_TRUE(plan.is_idle());
}

TEST_F(MirrorPlanTest, BelievesNothingGoneWhenTheLookWasNotWhole) {
  saw("a", 1);
  pass(kTimes.settle);
  send(1);
  TreeScan scan;
  scan.is_whole = false;
  plan_.scanned(scan, "", Writer::kUnknown, now_);
  EXPECT_TRUE(plan_.is_idle());
}

TEST_F(MirrorPlanTest, TriesOneTransferAfterAnErrorOfTheStoreAndAllWhenItWorked) {
  for (const char* path : {"a", "b", "c", "d"}) {
    saw(path, 1);
  }
  pass(kTimes.settle);
  for (const Upload& upload : next().uploads) {
    fail(upload, Kind::kStoreFailed);
  }
  EXPECT_THAT(sent(), IsEmpty());
  pass(kTimes.last_retry);
  MirrorActions actions = next();
  ASSERT_THAT(actions.uploads, SizeIs(1));
  finish(actions.uploads[0], 1);
  EXPECT_THAT(next().uploads, SizeIs(3));
}

TEST_F(MirrorPlanTest, LetsOthersPassAFileThatTheStoreAlwaysFailsOn) {
  saw("bad", 1);
  pass(kTimes.settle);
  fail(next().uploads.at(0), Kind::kStoreFailed);
  saw("good", 1);
  std::set<std::string> done;
  for (int i = 0; i < 20 && !done.contains("good"); ++i) {
    pass(kTimes.last_retry);
    for (const Upload& upload : next().uploads) {
      if (upload.path == "bad") {
        fail(upload, Kind::kStoreFailed);
      } else {
        finish(upload, 1);
        done.insert(upload.path);
      }
    }
  }
  EXPECT_TRUE(done.contains("good"));
}

TEST_F(MirrorPlanTest, TellsHowFarItIsBehind) {
  saw("a", 1);
  pass(Duration(500));
  saw("b", 1);
  pass(Duration(500));
  const MirrorLag lag = plan_.lag(now_);
  EXPECT_EQ(lag.files, 2u);
  EXPECT_EQ(lag.bytes, 20u);
  EXPECT_EQ(lag.oldest, Duration(1000));
  EXPECT_THAT(plan_.missing(1), ElementsAre("a"));
}

TEST_F(MirrorPlanTest, WaitsForNothingWhenNobodyWritesAnyMore) {
  saw("a", 1, Writer::kOpen);
  EXPECT_THAT(next(/*is_final=*/true).uploads, SizeIs(1));
}

TEST_F(MirrorPlanTest, ForgetsAFileThatCannotBeAnObjectUntilItChanges) {
  saw("a", 1);
  pass(kTimes.settle);
  fail(next().uploads.at(0), Kind::kRefused);
  EXPECT_TRUE(plan_.is_idle());
  saw("a", 2);
  EXPECT_FALSE(plan_.is_idle());
}

// A tree that changes at random, a store that fails at random, news that get lost at random.
class World {
 public:
  explicit World(std::uint64_t seed) : engine_(seed) {}

  void step() {
    now_ += Duration(static_cast<std::int64_t>(engine_() % 2'000));
    switch (engine_() % 6) {
      case 0:
        return write(path());
      case 1:
        return remove(path());
      case 2:
        return rename(path(), path());
      case 3:
        return look();
      default:
        return transfer(false, engine_() % 3 == 0);
    }
  }

  // False when it does not come to rest.
  bool finish() {
    look();
    for (int i = 0; i < 1'000 && !plan_.is_idle(); ++i) {
      now_ += kTimes.last_retry;
      transfer(true, false);
    }
    return plan_.is_idle();
  }

  const std::map<std::string, FileState>& local() const { return local_; }
  const std::map<std::string, FileState>& stored() const { return stored_; }

 private:
  std::string path() { return std::string(1, static_cast<char>('a' + engine_() % 5)); }
  bool is_told() { return engine_() % 4 != 0; }

  void write(const std::string& path) {
    local_[path] = {.size = 1, .mtime_ns = ++version_, .inode = 1};
    if (is_told()) {
      plan_.saw(path, local_[path], Writer::kClosed, now_);
    }
  }
  void remove(const std::string& path) {
    local_.erase(path);
    if (is_told()) {
      plan_.gone(path, now_);
    }
  }
  void rename(const std::string& from, const std::string& to) {
    if (from != to && local_.contains(from)) {
      local_[to] = local_[from];
      const FileState moved = local_[from];
      remove(from);
      if (is_told()) {
        plan_.saw(to, moved, Writer::kClosed, now_);
      }
    }
  }
  void look() {
    TreeScan scan;
    scan.files = local_;
    plan_.scanned(scan, "", Writer::kUnknown, now_);
  }
  void transfer(bool is_final, bool is_failing) {
    const MirrorActions actions = plan_.next(1 + engine_() % 3, is_final, now_);
    for (const Upload& upload : actions.uploads) {
      plan_.uploaded(upload, upload_end(upload.path, is_final, is_failing), now_);
    }
    for (const Removal& removal : actions.removals) {
      if (!is_failing && local_.contains(removal.path)) {
        plan_.removed(removal,
                      {.kind = Kind::kGone, .stored = {.etag = "", .state = local_[removal.path]}},
                      now_);
        continue;
      }
      if (!is_failing) {
        stored_.erase(removal.path);
      }
      plan_.removed(removal, {.kind = is_failing ? Kind::kStoreFailed : Kind::kDone}, now_);
    }
  }
  TransferEnd upload_end(const std::string& path, bool is_final, bool is_failing) {
    if (!local_.contains(path)) {
      return {.kind = Kind::kGone};
    }
    const FileState state = local_[path];
    if (is_failing && engine_() % 2 == 0) {
      return {.kind = Kind::kTorn};
    }
    if (is_failing) {
      if (engine_() % 2 == 0) {
        stored_[path] = state;  // only the answer was lost
      }
      return {.kind = Kind::kStoreFailed};
    }
    stored_[path] = state;
    if (!is_final && engine_() % 4 == 0) {
      write(path);  // just after it was read
    }
    return {.stored = {.etag = std::to_string(state.mtime_ns), .state = state}};
  }

  std::mt19937_64 engine_;
  SteadyTime now_ = SteadyTime(std::chrono::hours(1));
  std::int64_t version_ = 0;
  std::map<std::string, FileState> local_;
  std::map<std::string, FileState> stored_;
  MirrorPlan plan_{kTimes, {}, now_};
};

TEST(MirrorPlanProperty, TheStoreEndsEqualToTheTreeWhateverHappened) {
  for (std::uint64_t seed = 0; seed < 2'000; ++seed) {
    World world(seed);
    for (int i = 0; i < 60; ++i) {
      world.step();
    }
    ASSERT_TRUE(world.finish()) << "seed " << seed;
    ASSERT_EQ(world.stored(), world.local()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace trainyard::instance
