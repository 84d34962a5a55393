// SPDX-License-Identifier: Apache-2.0
#include "instance/metrics/metric_watch.h"

#include <chrono>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "instance/run/line_splitter.h"

namespace trainyard::instance {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Keeps what a watch gives.
class Heard {
 public:
  MetricSinks sinks() {
    return {.points =
                [this](std::vector<wire::MetricPoint> points) {
                  const MutexLock lock(mutex_);
                  points_.insert(points_.end(), points.begin(), points.end());
                },
            .note =
                [this](std::string text) {
                  const MutexLock lock(mutex_);
                  notes_.push_back(std::move(text));
                }};
  }
  std::vector<wire::MetricPoint> points() {
    const MutexLock lock(mutex_);
    return points_;
  }
  std::vector<std::string> notes() {
    const MutexLock lock(mutex_);
    return notes_;
  }

 private:
  Mutex mutex_;
  std::vector<wire::MetricPoint> points_ GUARDED_BY(mutex_);
  std::vector<std::string> notes_ GUARDED_BY(mutex_);
};

constexpr Duration kLong{20'000};

std::vector<wire::LogLine> lines(const std::vector<std::string>& texts) {
  std::vector<wire::LogLine> lines;
  lines.reserve(texts.size());
  for (const std::string& text : texts) {
    lines.push_back({.at = WallTime(Duration(5)), .text = text});
  }
  return lines;
}

TEST(MetricWatch, FindsWhatWasOfferedBeforeItFinishes) {
  Heard heard;
  MetricWatch watch({{"loss", "loss=(\\S+)"}}, heard.sinks());
  for (int i = 0; i < 1'000; ++i) {
    watch.offer(lines({"loss=" + std::to_string(i), "other"}));
  }
  watch.finish(kLong);
  const auto points = heard.points();
  ASSERT_EQ(points.size(), 1'000U);
  for (std::size_t i = 0; i < points.size(); ++i) {
    ASSERT_EQ(points[i].value, static_cast<double>(i));  // in order, each once
  }
  EXPECT_EQ(points[0].at, WallTime(Duration(5)));
  EXPECT_THAT(heard.notes(), IsEmpty());
}

TEST(MetricWatch, SeesTheFinalStateOfAProgressBar) {  // a match across \r
  LineSplitter splitter;
  std::vector<std::string> texts;
  splitter.push("10%|loss=9\r50%|loss=5\r100%|loss=", SteadyTime(Duration(10)), texts);
  splitter.push("1.5\nloss=2\n", SteadyTime(Duration(20)), texts);
  Heard heard;
  MetricWatch watch({{"loss", "loss=(\\S+)$"}}, heard.sinks());
  watch.offer(lines(texts));
  watch.finish(kLong);
  std::vector<double> values;
  for (const auto& point : heard.points()) {
    values.push_back(point.value);
  }
  EXPECT_THAT(values, testing::Contains(1.5));
  EXPECT_EQ(values.back(), 2);
}

TEST(MetricWatch, LeavesOutWhatItCannotHoldAndSaysHowMuch) {
  Heard heard;
  MetricWatch watch({{"loss", "loss=(\\S+)"}}, heard.sinks());
  std::vector<wire::LogLine> many;
  many.reserve(500);
  const std::string text(100'000, ' ');
  for (int i = 0; i < 500; ++i) {  // three times what may wait, offered at once
    many.push_back({.at = {}, .text = text});
  }
  watch.offer(many);
  watch.offer(lines({"loss=1"}));
  watch.finish(kLong);
  ASSERT_EQ(heard.notes().size(), 1U);
  EXPECT_THAT(heard.notes()[0], HasSubstr("lines were not searched for metrics"));
}

TEST(MetricWatch, NeverHoldsUpTheLogForAHostileExpression) {  // case 177
  Heard heard;
  MetricWatch watch({{"evil", "(a+)+$"}, {"loss", "loss=(\\d+)"}}, heard.sinks());
  const std::vector<wire::LogLine> batch =
      lines(std::vector<std::string>(100, std::string(1'000, 'a') + "! loss=1"));
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) {
    watch.offer(batch);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  watch.finish(kLong);
  EXPECT_THAT(heard.notes(), ElementsAre(HasSubstr("Metric \"evil\" is switched off")));
  EXPECT_EQ(heard.points().size(), 10'000U);
}

TEST(MetricWatch, FollowsFortyMetricsThroughManyLines) {  // case 177
  std::vector<MetricDefinition> definitions;
  for (int i = 0; i < 40; ++i) {
    const std::string name = "metric_" + std::to_string(i);
    definitions.push_back({name, name + "=([0-9.]+)"});
  }
  Heard heard;
  MetricWatch watch(definitions, heard.sinks());
  const std::vector<wire::LogLine> batch =
      lines(std::vector<std::string>(1'000, "step 12 metric_7=0.5 throughput 123 tokens/s"));
  for (int i = 0; i < 100; ++i) {
    watch.offer(batch);
  }
  watch.finish(kLong);
  EXPECT_THAT(heard.notes(), IsEmpty());
  EXPECT_EQ(heard.points().size(), 100'000U);
}

TEST(MetricWatch, EndsWithoutHavingFinished) {
  Heard heard;
  MetricWatch watch({{"loss", "loss=(\\S+)"}}, heard.sinks());
  watch.offer(lines(std::vector<std::string>(100'000, "loss=1")));
}

}  // namespace
}  // namespace trainyard::instance
