// SPDX-License-Identifier: Apache-2.0
#include "api/model.h"

#include <algorithm>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "api/pattern.h"

namespace trainyard::api {
namespace {

const Shape* shape_named(std::string_view name) {
  const auto found = std::ranges::find(shapes(), name, &Shape::name);
  return found == shapes().end() ? nullptr : &*found;
}

TEST(Model, KnowsEveryServedOperation) {
  for (const char* name :
       {"CreateTrainingJob", "DescribeTrainingJob", "ListTrainingJobs", "StopTrainingJob",
        "DeleteTrainingJob", "UpdateTrainingJob", "Search", "AddTags", "ListTags", "DeleteTags"}) {
    EXPECT_NE(find_operation("sagemaker", name), nullptr) << name;
  }
  for (const char* name :
       {"DescribeLogGroups", "DescribeLogStreams", "GetLogEvents", "FilterLogEvents"}) {
    EXPECT_NE(find_operation("logs", name), nullptr) << name;
  }
  for (const char* name : {"GetMetricData", "GetMetricStatistics", "ListMetrics"}) {
    EXPECT_NE(find_operation("cloudwatch", name), nullptr) << name;
  }
  EXPECT_NE(find_operation("sts", "GetCallerIdentity"), nullptr);
  EXPECT_NE(find_operation("trainyard", "SignalTrainingJob"), nullptr);
}

TEST(Model, KeepsItsOwnOperationsOutOfTheServicesOfAws) {
  EXPECT_EQ(find_operation("sagemaker", "SignalTrainingJob"), nullptr);
  EXPECT_NE(find_operation_by_target("Trainyard.SignalTrainingJob"), nullptr);
}

TEST(Model, FindsOperationsByTarget) {
  const Operation* create = find_operation_by_target("SageMaker.CreateTrainingJob");
  ASSERT_NE(create, nullptr);
  EXPECT_EQ(create->service, "sagemaker");
  EXPECT_NE(find_operation_by_target("Logs_20140328.GetLogEvents"), nullptr);
}

TEST(Model, FindsNothingForOtherTargets) {
  for (const char* target :
       {"", ".", "SageMaker", "SageMaker.", ".GetCallerIdentity", "SageMaker.createtrainingjob",
        "Nobody.CreateTrainingJob", "SageMaker.CreateTrainingJob.x"}) {
    EXPECT_EQ(find_operation_by_target(target), nullptr) << target;
  }
}

TEST(Model, CompilesEveryPattern) {
  for (const Shape& shape : shapes()) {
    const auto pattern = Pattern::compile_whole(shape.pcre);
    EXPECT_TRUE(pattern.has_value()) << shape.name << ": " << shape.pcre;
  }
}

TEST(Model, RefersToShapesThatExist) {
  for (const Shape& shape : shapes()) {
    EXPECT_LT(shape.item, shapes().size()) << shape.name;
    EXPECT_LT(shape.key, shapes().size()) << shape.name;
    for (const Member& member : shape.members) {
      EXPECT_LT(member.shape, shapes().size()) << shape.name;
    }
  }
}

// Where an answer shows a member that a request may set, both must mean the same shape: a value
// that Describe shows can be sent again.
TEST(Model, AcceptsAtCreateWhatDescribeShows) {
  const Shape* create = shape_named("CreateTrainingJobRequest");
  const Shape* describe = shape_named("DescribeTrainingJobResponse");
  ASSERT_TRUE(create != nullptr && describe != nullptr);
  std::set<std::string_view> compared;
  for (const Member& shown : describe->members) {
    const auto taken = std::ranges::find(create->members, shown.name, &Member::name);
    if (taken != create->members.end()) {
      EXPECT_EQ(taken->shape, shown.shape) << shown.name;
      compared.insert(shown.name);
    }
  }
  EXPECT_GT(compared.size(), 20u);
}

TEST(Pattern, MatchesWholeValuesOnly) {
  const Shape& name = *shape_named("TrainingJobName");
  EXPECT_TRUE(matches_pattern(name, "a--b"));
  EXPECT_FALSE(matches_pattern(name, "a b"));
  EXPECT_FALSE(matches_pattern(name, "a\n"));
}

TEST(Pattern, GivesTheShortClassesTheirJavaMeaning) {
  const auto digits = Pattern::compile_whole("\\d+");
  EXPECT_TRUE(digits->matches("123"));
  EXPECT_FALSE(digits->matches("\u0661\u0662"));  // Arabic digits
  EXPECT_TRUE(matches_pattern(*shape_named("TagKey"), "\u65e5\u672c \u00e4-1"));
}

TEST(Pattern, EndsCatastrophicMatchesEarly) {
  const auto evil = Pattern::compile_whole("(a+)+");
  ASSERT_TRUE(evil.has_value());
  std::string text(5'000, 'a');
  text.push_back('b');
  EXPECT_FALSE(evil->matches(text));
}

TEST(Pattern, TakesLongValuesWithoutOverflow) {
  EXPECT_FALSE(matches_pattern(*shape_named("TrainingJobName"), std::string(60'000, '-')));
  EXPECT_TRUE(matches_pattern(*shape_named("HyperParameterValue"), std::string(60'000, '\n')));
}

TEST(Pattern, CompilesOnceForManyThreads) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back(
        [] { EXPECT_TRUE(matches_pattern(*shape_named("ChannelName"), "train")); });
  }
}

}  // namespace
}  // namespace trainyard::api
