// SPDX-License-Identifier: Apache-2.0
// The pump alone, on pipes of the test's own and a clock that the test moves. What it does with
// real containers is in container_run_test.cc.
#include "instance/run/log_pump.h"

#include <gmock/gmock.h>

#include "base/mutex.h"
#include "testing/fake_clock.h"

namespace trainyard::instance {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;

class LogPumpTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<Pipe> output = make_pipe();
    Result<Pipe> status = make_pipe();
    Result<Pipe> diagnostics = make_pipe();
    ASSERT_TRUE(output && status && diagnostics);
    output_ = std::move(output->write_end);
    init_ = std::move(status->write_end);
    PumpInput input{.outputs = {},
                    .prefixes = {""},
                    .status = std::move(status->read_end),
                    .diagnostics = std::move(diagnostics->read_end)};
    input.outputs.push_back(std::move(output->read_end));
    PumpSinks sinks{.lines =
                        [this](const std::vector<wire::LogLine>& lines) {
                          const MutexLock lock(mutex_);
                          for (const wire::LogLine& line : lines) {
                            lines_.push_back(line.text);
                          }
                          changed_.notify_all();
                        },
                    .ended = [](const ProcessEnd&) {},
                    .closed =
                        [this] {
                          const MutexLock lock(mutex_);
                          closed_ = true;
                          changed_.notify_all();
                        }};
    pump_ = std::make_unique<LogPump>(std::move(input), std::move(sinks), clock_);
  }

  template <typename Condition>
  bool wait_for(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, seconds(20), condition);
  }
  // Moves the clock on until the pump has noticed: it looks at it now and then.
  bool closes_in(Duration time) {
    for (int look = 0; look < 40; ++look) {
      clock_.advance(time / 40);
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, std::chrono::milliseconds(25), [&] { return closed_; })) {
        return true;
      }
    }
    return wait_for([&] { return closed_; });
  }

  trainyard::testing::FakeClock clock_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<std::string> lines_;
  bool closed_ = false;
  Fd output_;  // the end that a process of the container holds
  Fd init_;    // the end that init holds
  std::unique_ptr<LogPump> pump_;
};

// cases.md 64
TEST_F(LogPumpTest, DoesNotWaitForeverForAPipeThatSomebodyHoldsAfterInit) {
  ASSERT_TRUE(write_all(output_.get(), std::string_view("last words")));
  init_.reset();
  ASSERT_TRUE(closes_in(2 * LogPump::kPatience));
  EXPECT_TRUE(pump_->is_stuck());
  EXPECT_THAT(lines_, ElementsAre("last words"));
}

TEST_F(LogPumpTest, ReadsOnAfterInitForAsLongAsSomethingComes) {
  init_.reset();
  for (std::size_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(write_all(output_.get(), std::string_view("still here\n")));
    ASSERT_TRUE(wait_for([&] { return lines_.size() == i + 1; }));
    clock_.advance(LogPump::kPatience / 2);
  }
  output_.reset();
  ASSERT_TRUE(wait_for([&] { return closed_; }));
  EXPECT_FALSE(pump_->is_stuck());
}

TEST_F(LogPumpTest, WaitsForASilentProcessWhileInitLives) {
  clock_.advance(seconds(1000));
  ASSERT_TRUE(write_all(output_.get(), std::string_view("awake\n")));
  ASSERT_TRUE(wait_for([&] { return lines_.size() == 1; }));
  EXPECT_FALSE(closed_);
  output_.reset();
  init_.reset();
  ASSERT_TRUE(wait_for([&] { return closed_; }));
  EXPECT_FALSE(pump_->is_stuck());
}

TEST(LastLines, KeepsOnlyTheLastOnes) {
  LastLines lines;
  for (std::size_t i = 0; i <= LastLines::kMost; ++i) {
    lines.add(std::to_string(i));
  }
  EXPECT_EQ(lines.all().size(), LastLines::kMost);
  EXPECT_EQ(lines.all().front(), "1");
}

TEST(LastLines, CutsLongOnesBetweenCharacters) {
  LastLines lines;
  lines.add(std::string(LastLines::kLongest, 'x'));
  lines.add(std::string(LastLines::kLongest - 1, 'x') + "\u20ac");
  lines.add(std::string(LastLines::kLongest - 3, 'x') + "\u20ac\u20ac");
  EXPECT_THAT(lines.all(), ElementsAre(std::string(LastLines::kLongest, 'x'),
                                       std::string(LastLines::kLongest - 1, 'x'),
                                       std::string(LastLines::kLongest - 3, 'x') + "\u20ac"));
}

}  // namespace
}  // namespace trainyard::instance
