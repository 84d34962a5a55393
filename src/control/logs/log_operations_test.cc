// SPDX-License-Identifier: Apache-2.0
#include "control/logs/log_operations.h"

#include <algorithm>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "control/logs/log_filter.h"

namespace trainyard::control {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kGroup = "/aws/sagemaker/TrainingJobs";

class LogOperationsTest : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = LogStore::open(directory_->path() / "logs", clock_);
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    logs_ = std::move(*opened);
  }

  void append(const std::string& stream, std::int64_t millis, const std::string& text) {
    const std::vector<LogEvent> one = {{.at = WallTime{Duration{millis}}, .text = text}};
    ASSERT_TRUE(logs_->append(kGroup, stream, one).has_value());
  }
  void append_many(const std::string& stream, int count, std::size_t text_bytes = 4) {
    std::vector<LogEvent> events;
    events.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
      events.push_back({.at = WallTime{Duration{1000 + i}}, .text = std::string(text_bytes, 'x')});
    }
    ASSERT_TRUE(logs_->append(kGroup, stream, events).has_value());
  }
  json call(const char* operation, json input) {
    if (!input.contains("logGroupName") && operation != std::string_view("DescribeLogGroups")) {
      input["logGroupName"] = kGroup;
    }
    auto answer = call_logs(*logs_, operation, input);
    EXPECT_TRUE(answer.has_value()) << answer.error().message;
    return answer ? *answer : json();
  }
  Error refusal(const char* operation, const json& input) {
    auto answer = call_logs(*logs_, operation, input);
    EXPECT_FALSE(answer.has_value());
    return answer ? Error{} : answer.error();
  }

  // Of the store, in this process.
  std::ptrdiff_t open_files() const {
    return std::count_if(std::filesystem::directory_iterator("/proc/self/fd"), {},
                         [this](const auto& fd) {
                           std::error_code gone;
                           return std::filesystem::read_symlink(fd, gone).string().starts_with(
                               directory_->path().string());
                         });
  }

  Result<TempDir> directory_ = TempDir::make("log-operations-");
  SystemClock clock_;
  std::unique_ptr<LogStore> logs_;
};

std::vector<std::string> each(const json& list, const char* member) {
  std::vector<std::string> out;
  for (const json& one : list) {
    out.push_back(one.at(member).get<std::string>());
  }
  return out;
}

TEST_F(LogOperationsTest, DescribeLogGroupsGivesNameTimeAndArn) {
  append("a/algo-1-1", 1, "x");
  const json answer = call("DescribeLogGroups", {{"logGroupNamePrefix", "/aws/sagemaker/"}});
  ASSERT_EQ(answer["logGroups"].size(), 1u);
  EXPECT_EQ(answer["logGroups"][0]["logGroupName"], kGroup);
  EXPECT_EQ(answer["logGroups"][0]["arn"],
            "arn:aws:logs:us-east-1:123456789012:log-group:/aws/sagemaker/TrainingJobs:*");
  EXPECT_FALSE(answer.contains("nextToken"));
}

TEST_F(LogOperationsTest, DescribeLogStreamsHasNoTokenWhenExactlyTheLimitMatches) {
  append("job/algo-1-1", 1, "x");
  append("job/algo-2-1", 2, "x");
  append("other/algo-1-1", 3, "x");
  const json answer =
      call("DescribeLogStreams",
           {{"logStreamNamePrefix", "job/"}, {"orderBy", "LogStreamName"}, {"limit", 2}});
  EXPECT_THAT(each(answer["logStreams"], "logStreamName"),
              ElementsAre("job/algo-1-1", "job/algo-2-1"));
  EXPECT_FALSE(answer.contains("nextToken"));
}

TEST_F(LogOperationsTest, DescribeLogStreamsPagesByName) {
  for (const char* name : {"c", "a", "d", "b", "e"}) {
    append(name, 1, "x");
  }
  const json first = call("DescribeLogStreams", {{"limit", 2}, {"descending", true}});
  const json second = call("DescribeLogStreams",
                           {{"limit", 2}, {"descending", true}, {"nextToken", first["nextToken"]}});
  const json third = call("DescribeLogStreams",
                          {{"limit", 2}, {"descending", true}, {"nextToken", second["nextToken"]}});
  EXPECT_THAT(each(first["logStreams"], "logStreamName"), ElementsAre("e", "d"));
  EXPECT_THAT(each(second["logStreams"], "logStreamName"), ElementsAre("c", "b"));
  EXPECT_THAT(each(third["logStreams"], "logStreamName"), ElementsAre("a"));
  EXPECT_FALSE(third.contains("nextToken"));
}

TEST_F(LogOperationsTest, DescribeLogStreamsOrdersByLastEvent) {
  append("old", 10, "x");
  append("new", 30, "x");
  append("middle", 20, "x");
  const json answer =
      call("DescribeLogStreams", {{"orderBy", "LastEventTime"}, {"descending", true}});
  EXPECT_THAT(each(answer["logStreams"], "logStreamName"), ElementsAre("new", "middle", "old"));
  EXPECT_EQ(answer["logStreams"][0]["lastEventTimestamp"], 30);
  EXPECT_EQ(refusal("DescribeLogStreams", {{"logGroupName", kGroup},
                                           {"orderBy", "LastEventTime"},
                                           {"logStreamNamePrefix", "o"}})
                .code,
            Code::kInvalidArgument);
}

TEST_F(LogOperationsTest, NamesTheGroupOrTheStreamThatDoesNotExist) {
  EXPECT_EQ(refusal("DescribeLogStreams", {{"logGroupName", kGroup}}).subject, "log_group");
  append("a", 1, "x");
  const Error stream = refusal("GetLogEvents", {{"logGroupName", kGroup}, {"logStreamName", "b"}});
  EXPECT_EQ(stream.code, Code::kNotFound);
  EXPECT_EQ(stream.subject, "log_stream");
}

TEST_F(LogOperationsTest, GetLogEventsRepeatsTheForwardTokenAtTheEnd) {
  append("s", 1, "one");
  append("s", 2, "two");
  const json input = {{"logStreamName", "s"}, {"startFromHead", true}};
  const json first = call("GetLogEvents", input);
  EXPECT_THAT(each(first["events"], "message"), ElementsAre("one", "two"));
  EXPECT_EQ(first["events"][0]["timestamp"], 1);
  EXPECT_TRUE(first["nextForwardToken"].get<std::string>().starts_with("f/"));

  json again = input;
  again["nextToken"] = first["nextForwardToken"];
  const json second = call("GetLogEvents", again);
  EXPECT_THAT(second["events"], IsEmpty());
  EXPECT_EQ(second["nextForwardToken"], first["nextForwardToken"]);

  append("s", 3, "three");
  EXPECT_THAT(each(call("GetLogEvents", again)["events"], "message"), ElementsAre("three"));
}

TEST_F(LogOperationsTest, GetLogEventsStartsAtTheTailUnlessToldOtherwise) {
  for (int i = 1; i <= 5; ++i) {
    append("s", i, std::to_string(i));
  }
  const json tail = call("GetLogEvents", {{"logStreamName", "s"}, {"limit", 2}});
  EXPECT_THAT(each(tail["events"], "message"), ElementsAre("4", "5"));
  const json before =
      call("GetLogEvents",
           {{"logStreamName", "s"}, {"limit", 2}, {"nextToken", tail["nextBackwardToken"]}});
  EXPECT_THAT(each(before["events"], "message"), ElementsAre("2", "3"));
}

TEST_F(LogOperationsTest, GetLogEventsKeepsToTheTimeRange) {
  for (int i = 1; i <= 5; ++i) {
    append("s", i, std::to_string(i));
  }
  const json answer =
      call("GetLogEvents",
           {{"logStreamName", "s"}, {"startFromHead", true}, {"startTime", 2}, {"endTime", 4}});
  EXPECT_THAT(each(answer["events"], "message"), ElementsAre("2", "3"));
}

TEST_F(LogOperationsTest, GetLogEventsCutsPagesAtTenThousandEventsAndOneMegabyte) {
  append_many("many", 10'001);
  EXPECT_EQ(
      call("GetLogEvents", {{"logStreamName", "many"}, {"startFromHead", true}})["events"].size(),
      10'000u);
  append_many("wide", 20, 100'000);
  EXPECT_EQ(
      call("GetLogEvents", {{"logStreamName", "wide"}, {"startFromHead", true}})["events"].size(),
      10u);
}

TEST_F(LogOperationsTest, RefusesTokensThatItDidNotMake) {
  append("s", 1, "x");
  for (const char* token : {"x", "f/", "f/-1", "g/00000000000000000001", "f/1x"}) {
    EXPECT_EQ(refusal("GetLogEvents",
                      {{"logGroupName", kGroup}, {"logStreamName", "s"}, {"nextToken", token}})
                  .code,
              Code::kInvalidArgument)
        << token;
  }
  EXPECT_FALSE(call_logs(*logs_, "FilterLogEvents", {{"logGroupName", kGroup}, {"nextToken", "x"}})
                   .has_value());
}

TEST_F(LogOperationsTest, FilterLogEventsInterleavesStreamsByTime) {
  append("job/algo-1", 10, "a1");
  append("job/algo-1", 30, "a3");
  append("job/algo-2", 20, "b2");
  append("job/algo-2", 40, "b4");
  append("other", 25, "no");
  const json answer = call("FilterLogEvents", {{"logStreamNamePrefix", "job/"}});
  EXPECT_THAT(each(answer["events"], "message"), ElementsAre("a1", "b2", "a3", "b4"));
  EXPECT_EQ(answer["events"][1]["logStreamName"], "job/algo-2");
  EXPECT_FALSE(answer.contains("nextToken"));
}

TEST_F(LogOperationsTest, FilterLogEventsPagesWithoutGapOrRepeat) {
  for (int i = 0; i < 30; ++i) {
    append("s" + std::to_string(i % 3), i, std::to_string(i));
  }
  std::vector<std::string> seen;
  std::set<std::string> ids;
  json input = {{"limit", 7}};
  json answer;
  do {
    answer = call("FilterLogEvents", input);
    for (const json& event : answer["events"]) {
      seen.push_back(event["message"].get<std::string>());
      ids.insert(event["eventId"].get<std::string>());
    }
    input["nextToken"] = answer.value("nextToken", "");
  } while (answer.contains("nextToken"));
  ASSERT_EQ(seen.size(), 30u);
  EXPECT_EQ(ids.size(), 30u);
  EXPECT_EQ(seen[0], "0");
  EXPECT_EQ(seen[29], "29");
}

TEST_F(LogOperationsTest, FilterLogEventsReachesEveryOfManyStreams) {
  for (int i = 0; i < 60; ++i) {
    append("s" + std::to_string(i), i, "x");
  }
  std::size_t seen = 0;
  json input = json::object();
  json answer;
  do {
    answer = call("FilterLogEvents", input);
    seen += answer["events"].size();
    input["nextToken"] = answer.value("nextToken", "");
  } while (answer.contains("nextToken"));
  EXPECT_EQ(seen, 60u);
}

TEST_F(LogOperationsTest, FilterLogEventsOpensNoMoreStreamsThanItMerges) {
  for (int i = 0; i < 60; ++i) {
    append("s" + std::to_string(i), i, "x");
  }
  logs_.reset();
  SetUp();
  EXPECT_EQ(call("FilterLogEvents", json::object())["events"].size(), 50u);
  EXPECT_LE(open_files(), 51) << "50, and the one that says that there are more";
}

TEST_F(LogOperationsTest, FilterLogEventsCountsTheEndIn) {
  append("s", 10, "a");
  append("s", 20, "b");
  append("s", 30, "c");
  const json answer = call("FilterLogEvents", {{"startTime", 20}, {"endTime", 30}});
  EXPECT_THAT(each(answer["events"], "message"), ElementsAre("b", "c"));
}

TEST_F(LogOperationsTest, TakesTheGroupAsAnArn) {
  append("s", 10, "a");
  const json input = {
      {"logGroupIdentifier",
       "arn:aws:logs:us-east-1:123456789012:log-group:/aws/sagemaker/TrainingJobs:*"}};
  const auto answer = call_logs(*logs_, "FilterLogEvents", input);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ((*answer)["events"].size(), 1u);
}

TEST_F(LogOperationsTest, RefusesWrongTypesAndUnknownOperations) {
  EXPECT_EQ(refusal("GetLogEvents", {{"logGroupName", 3}}).subject, "serialization");
  EXPECT_EQ(refusal("GetLogEvents", json::array()).subject, "serialization");
  EXPECT_EQ(refusal("PutLogEvents", json::object()).subject, "operation");
}

struct PatternCase {
  const char* pattern;
  const char* message;
  bool matches;
};

class FilterPatterns : public testing::TestWithParam<PatternCase> {};

TEST_P(FilterPatterns, Match) {
  const auto pattern = FilterPattern::parse(GetParam().pattern);
  ASSERT_TRUE(pattern.has_value());
  EXPECT_EQ(pattern->matches(GetParam().message), GetParam().matches);
}

INSTANTIATE_TEST_SUITE_P(Cases, FilterPatterns,
                         testing::Values(PatternCase{"", "anything", true},
                                         PatternCase{"ERROR", "an ERROR here", true},
                                         PatternCase{"ERROR", "an error here", false},
                                         PatternCase{"step loss", "loss at step 3", true},
                                         PatternCase{"step loss", "step 3", false},
                                         PatternCase{"\"step 3\"", "at step 3", true},
                                         PatternCase{"\"step 3\"", "step at 3", false},
                                         PatternCase{"\"say \\\"hi\\\"\"", "they say \"hi\"", true},
                                         PatternCase{"loss -nan", "loss 3", true},
                                         PatternCase{"loss -nan", "loss nan", false},
                                         PatternCase{"-\"two words\"", "has two words", false},
                                         PatternCase{"?WARN ?ERROR", "WARN", true},
                                         PatternCase{"?WARN ?ERROR", "INFO", false},
                                         PatternCase{"-", "a - b", true}));

TEST(FilterPattern, RefusesWhatItDoesNotUnderstand) {
  for (const char* pattern : {"{ $.a = 1 }", "[a, b]", "%re%", "\"open"}) {
    EXPECT_FALSE(FilterPattern::parse(pattern).has_value()) << pattern;
  }
}

}  // namespace
}  // namespace trainyard::control
