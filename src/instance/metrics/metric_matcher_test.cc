// SPDX-License-Identifier: Apache-2.0
#include "instance/metrics/metric_matcher.h"

#include <cmath>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::instance {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A clock for costs that the test moves: every look at it costs `step`.
struct Meter {
  MetricMatcher::Cost now{};
  MetricMatcher::Cost step{};

  std::function<MetricMatcher::Cost()> reader() {
    return [this] { return now += step; };
  }
};

std::vector<LineView> views(const std::vector<std::string>& lines) {
  std::vector<LineView> views;
  views.reserve(lines.size());
  for (const std::string& line : lines) {
    views.push_back(
        {.at = WallTime(Duration(static_cast<std::int64_t>(views.size()))), .text = line});
  }
  return views;
}

MetricFindings find(const std::vector<MetricDefinition>& definitions,
                    const std::vector<std::string>& lines) {
  Meter meter;
  return MetricMatcher(definitions, meter.reader()).search(views(lines));
}

std::vector<std::string> texts(const std::vector<wire::MetricPoint>& points) {
  std::vector<std::string> texts;
  texts.reserve(points.size());
  for (const wire::MetricPoint& point : points) {
    texts.push_back(point.metric + "@" + std::to_string(point.at.time_since_epoch().count()) + "=" +
                    std::to_string(point.value));
  }
  return texts;
}

TEST(MetricDefinitions, AreReadFromTheRequest) {
  const auto definitions =
      metric_definitions({{"AlgorithmSpecification",
                           {{"MetricDefinitions", {{{"Name", "loss"}, {"Regex", "loss=(.*)"}}}}}}});
  ASSERT_EQ(definitions.size(), 1U);
  EXPECT_EQ(definitions[0].name, "loss");
  EXPECT_EQ(definitions[0].regex, "loss=(.*)");
  EXPECT_THAT(metric_definitions({{"AlgorithmSpecification", 3}}), IsEmpty());
}

TEST(MetricMatcher, FindsSeveralMetricsInOneLine) {
  const auto found = find({{"loss", "loss=([0-9.]+)"}, {"step", "step (\\d+)"}},
                          {"step 7 loss=0.25", "nothing", "step 8 loss=0.125"});
  EXPECT_THAT(texts(found.points), ElementsAre("loss@0=0.250000", "loss@2=0.125000",
                                               "step@0=7.000000", "step@2=8.000000"));
  EXPECT_THAT(found.notes, IsEmpty());
}

TEST(MetricMatcher, TakesTheFirstGroupOfTheFirstMatch) {
  const auto found = find({{"m", "(?P<v>\\d)(\\d)"}}, {"12 34"});
  EXPECT_THAT(texts(found.points), ElementsAre("m@0=1.000000"));
}

TEST(MetricMatcher, GivesNothingForAGroupThatTookNoPart) {
  const auto found = find({{"m", "a|b(\\d)"}}, {"a", "b2"});
  EXPECT_THAT(texts(found.points), ElementsAre("m@1=2.000000"));
  EXPECT_THAT(found.notes, IsEmpty());
}

TEST(MetricMatcher, KeepsWhatIsNotFinite) {  // case 174
  const auto found = find({{"loss", "loss=(\\S+)"}}, {"loss=nan", "loss=inf", "loss=-Infinity"});
  ASSERT_EQ(found.points.size(), 3U);
  EXPECT_TRUE(std::isnan(found.points[0].value));
  EXPECT_EQ(found.points[1].value, HUGE_VAL);
  EXPECT_EQ(found.points[2].value, -HUGE_VAL);
}

TEST(MetricMatcher, WarnsOnceOfTextThatIsNoNumber) {  // case 175
  const auto found =
      find({{"loss", "loss=(\\S+)"}, {"acc", "acc=(\\S+)"}},
           {"loss=high acc=low", "loss=higher", "loss=3", "loss=" + std::string(100, 'x')});
  EXPECT_THAT(texts(found.points), ElementsAre("loss@2=3.000000"));
  EXPECT_THAT(found.notes,
              ElementsAre("Metric \"loss\": \"high\" is no number; where that stands there is no "
                          "value.",
                          HasSubstr("Metric \"acc\": \"low\"")));
}

TEST(MetricMatcher, SwitchesOffACatastrophicExpressionAndKeepsTheOthers) {  // case 177
  const std::string bad = std::string(100, 'a') + "! loss=1";
  const auto found =
      find({{"evil", "(a+)+$"}, {"loss", "loss=(\\d)"}}, std::vector<std::string>(50, bad));
  EXPECT_EQ(found.points.size(), 50U);
  EXPECT_THAT(found.notes, ElementsAre(HasSubstr("Metric \"evil\" is switched off")));
}

TEST(MetricMatcher, ForgivesALineThatIsHardNowAndThen) {
  Meter meter;
  MetricMatcher matcher({{"evil", "(a+)+$"}}, meter.reader());
  std::vector<std::string> lines(MetricMatcher::kCleanSearches, "fine");
  lines.push_back(std::string(100, 'a') + "!");
  for (int round = 0; round < 3 * MetricMatcher::kMostOverruns; ++round) {
    const MetricFindings found = matcher.search(views(lines));
    ASSERT_THAT(found.notes, IsEmpty()) << round;
    ASSERT_EQ(found.points.size(), 0U);
  }
  EXPECT_EQ(matcher.search(views({"aa"})).notes.size(), 1U);  // still on: "aa" is no number
}

TEST(MetricMatcher, BlamesADearExpressionForLostLinesTheThirdTime) {
  Meter meter{.step = std::chrono::milliseconds(1)};
  MetricMatcher matcher({{"slow", "x(\\d)"}}, meter.reader());
  for (int time = 1; time <= MetricMatcher::kMostBlames; ++time) {
    EXPECT_EQ(matcher.search(views({"x1"})).points.size(), 1U);
    const std::string note = matcher.lines_were_lost();
    EXPECT_EQ(note.empty(), time < MetricMatcher::kMostBlames) << note;
  }
  EXPECT_THAT(matcher.search(views({"x1"})).points, IsEmpty());
}

TEST(MetricMatcher, DoesNotBlameWhatIsCheap) {
  Meter meter{.step = std::chrono::microseconds(10)};
  MetricMatcher matcher({{"fast", "x(\\d)"}}, meter.reader());
  for (int time = 0; time < 10; ++time) {
    EXPECT_EQ(matcher.search(views({"x1"})).points.size(), 1U);
    EXPECT_EQ(matcher.lines_were_lost(), "");
  }
}

TEST(MetricMatcher, DoesNotBlameWhatIsDearAmongOthersThatAre) {
  Meter meter{.step = std::chrono::milliseconds(1)};
  MetricMatcher matcher({{"a", "x(\\d)"}, {"b", "x(\\d)"}}, meter.reader());
  for (int time = 0; time < 10; ++time) {
    EXPECT_EQ(matcher.search(views({"x1"})).points.size(), 2U);
    EXPECT_EQ(matcher.lines_were_lost(), "");
  }
}

}  // namespace
}  // namespace trainyard::instance
