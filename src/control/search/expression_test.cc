// SPDX-License-Identifier: Apache-2.0
#include "control/search/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::control {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

const json& job() {
  static const json kJob = {
      {"TrainingJobName", "demo-1"},
      {"TrainingJobStatus", "Completed"},
      {"CreationTime", 1'796'000'000.5},  // 2026-11-30T00:53:20.5Z
      {"EnableNetworkIsolation", true},
      {"BillableTimeInSeconds", 60},
      {"ResourceConfig", {{"InstanceType", "ml.c5.xlarge"}, {"InstanceCount", 2}}},
      {"HyperParameters", {{"lr", "0.75"}, {"optimizer", "adam"}, {"a.b", "x"}}},
      {"InputDataConfig",
       {{{"ChannelName", "train"},
         {"DataSource", {{"S3DataSource", {{"S3Uri", "s3://bucket/train"}}}}}},
        {{"ChannelName", "test"},
         {"DataSource", {{"S3DataSource", {{"S3Uri", "s3://bucket/test"}}}}}}}},
      {"FinalMetricDataList", {{{"MetricName", "val:acc"}, {"Value", 0.9}}}},
      {"Tags", {{{"Key", "team"}, {"Value", "a b"}}, {{"Key", "x.y"}, {"Value", "1"}}}}};
  return kJob;
}

json filter(const std::string& name, const std::string& how = "", const std::string& value = "") {
  json item = {{"Name", name}};
  if (!how.empty()) {
    item["Operator"] = how;
  }
  if (!value.empty()) {
    item["Value"] = value;
  }
  return item;
}

// "yes", "no", or why the expression is refused.
std::string answer(const json& expression) {
  const auto parsed = search_expression({{"SearchExpression", expression}});
  if (!parsed) {
    return parsed.error().message;
  }
  return matches(*parsed, job()) ? "yes" : "no";
}

std::string one(const std::string& name, const std::string& how, const std::string& value = "") {
  return answer({{"Filters", std::vector<json>{filter(name, how, value)}}});
}

struct Case {
  const char* property;
  const char* how;
  const char* value;
  const char* answer;
};

class SearchFilter : public ::testing::TestWithParam<Case> {};

TEST_P(SearchFilter, AnswersAsListed) {
  EXPECT_EQ(one(GetParam().property, GetParam().how, GetParam().value), GetParam().answer);
}

INSTANTIATE_TEST_SUITE_P(
    Text, SearchFilter,
    ::testing::Values(
        Case{"TrainingJobName", "", "demo-1", "yes"},
        Case{"TrainingJobName", "Equals", "demo", "no"},
        Case{"TrainingJobName", "NotEquals", "demo", "yes"},
        Case{"TrainingJobName", "Contains", "mo-", "yes"},
        Case{"TrainingJobName", "Contains", "x", "no"},
        Case{"TrainingJobName", "In", "a, demo-1,b", "yes"},
        Case{"TrainingJobName", "In", "demo", "no"},
        Case{"ResourceConfig.InstanceType", "Equals", "ml.c5.xlarge", "yes"},
        Case{"FailureReason", "Equals", "x", "no"}, Case{"FailureReason", "NotEquals", "x", "yes"},
        Case{"FailureReason", "Exists", "", "no"}, Case{"FailureReason", "NotExists", "", "yes"},
        Case{"TrainingJobName", "Exists", "", "yes"}, Case{"Tags.team", "Equals", "a b", "yes"},
        Case{"Tags.team", "Contains", "b", "yes"}, Case{"Tags.x.y", "Equals", "1", "yes"},
        Case{"Tags.none", "NotExists", "", "yes"},
        Case{"InputDataConfig.ChannelName", "Equals", "test", "yes"},
        Case{"InputDataConfig.ChannelName", "NotEquals", "test", "no"},
        Case{"InputDataConfig", "Exists", "", "yes"},
        Case{"DebugRuleConfigurations", "Exists", "", "no"}));

INSTANTIATE_TEST_SUITE_P(
    Numbers, SearchFilter,
    ::testing::Values(Case{"ResourceConfig.InstanceCount", "Equals", "2", "yes"},
                      Case{"ResourceConfig.InstanceCount", "NotEquals", "2.0", "no"},
                      Case{"ResourceConfig.InstanceCount", "GreaterThan", "1", "yes"},
                      Case{"ResourceConfig.InstanceCount", "GreaterThan", "2", "no"},
                      Case{"ResourceConfig.InstanceCount", "GreaterThanOrEqualTo", "2", "yes"},
                      Case{"ResourceConfig.InstanceCount", "LessThan", "2", "no"},
                      Case{"ResourceConfig.InstanceCount", "LessThanOrEqualTo", "2", "yes"},
                      Case{"Metrics.val:acc", "GreaterThan", "0.89", "yes"},
                      Case{"Metrics.none", "GreaterThan", "0", "no"},
                      Case{"Metrics.val:acc", "Exists", "", "yes"},
                      Case{"HyperParameters.lr", "LessThan", "0.8", "yes"},
                      Case{"HyperParameters.lr", "GreaterThan", "0", "no"},  // cut to 0
                      Case{"HyperParameters.lr", "Equals", "0", "yes"},
                      Case{"HyperParameters.lr", "Equals", "0.75", "yes"},
                      Case{"HyperParameters.optimizer", "Equals", "adam", "yes"},
                      Case{"HyperParameters.optimizer", "GreaterThan", "1", "no"},
                      Case{"HyperParameters.a.b", "Equals", "x", "yes"},
                      Case{"CreationTime", "GreaterThan", "2026-11-30T00:53:20", "yes"},
                      Case{"CreationTime", "LessThan", "2026-11-30T00:53:20Z", "no"},
                      Case{"CreationTime", "LessThan", "2026-11-30T01:53:21+01:00", "yes"},
                      Case{"EnableNetworkIsolation", "Equals", "true", "yes"},
                      Case{"EnableNetworkIsolation", "Equals", "False", "no"}));

TEST(SearchExpression, MatchesEverythingWhenThereIsNone) {
  EXPECT_TRUE(matches(*search_expression({{"Resource", "TrainingJob"}}), job()));
  EXPECT_EQ(answer(json::object()), "yes");
}

TEST(SearchExpression, CombinesByAndUnlessOrIsAsked) {
  const std::vector<json> both = {filter("TrainingJobName", "", "demo-1"),
                                  filter("TrainingJobStatus", "", "Failed")};
  EXPECT_EQ(answer({{"Filters", both}}), "no");
  EXPECT_EQ(answer({{"Filters", both}, {"Operator", "Or"}}), "yes");
}

TEST(SearchExpression, HoldsExpressions) {
  const json failed = {{"Filters", std::vector<json>{filter("TrainingJobStatus", "", "Failed")}}};
  const json named = {{"Filters", std::vector<json>{filter("TrainingJobName", "", "demo-1")}}};
  EXPECT_EQ(answer({{"SubExpressions", std::vector<json>{failed, named}}}), "no");
  EXPECT_EQ(answer({{"SubExpressions", std::vector<json>{failed, named}}, {"Operator", "Or"}}),
            "yes");
  EXPECT_EQ(answer({{"SubExpressions",
                     std::vector<json>{{{"SubExpressions", std::vector<json>{named}}}}}}),
            "yes");
}

json nested(const std::string& channel, const std::string& uri) {
  return {{"NestedFilters",
           std::vector<json>{
               {{"NestedPropertyName", "InputDataConfig"},
                {"Filters",
                 {filter("InputDataConfig.ChannelName", "Equals", channel),
                  filter("InputDataConfig.DataSource.S3DataSource.S3Uri", "Contains", uri)}}}}}};
}

TEST(SearchExpression, WantsOneElementToFitAllNestedFilters) {
  EXPECT_EQ(answer(nested("train", "bucket/train")), "yes");
  EXPECT_EQ(answer(nested("train", "bucket/test")), "no");
}

TEST(SearchExpression, RefusesWhatCannotBe) {
  EXPECT_THAT(one("Color", "Exists"), HasSubstr("Unknown property name: 'Color'"));
  for (const char* name : {"", ".", "ResourceConfig.", "ResourceConfig..InstanceType",
                           "TrainingJobName.x", "Tags.", "HyperParameters."}) {
    EXPECT_THAT(one(name, "Exists"), HasSubstr("Unknown property name")) << name;
  }
  EXPECT_THAT(one("TrainingJobName", "GreaterThan", "a"),
              HasSubstr("GreaterThan is not supported for the property 'TrainingJobName'"));
  EXPECT_THAT(one("ResourceConfig.InstanceCount", "Contains", "1"), HasSubstr("not supported"));
  EXPECT_THAT(one("ResourceConfig", "Equals", "1"), HasSubstr("not supported"));
  EXPECT_THAT(one("TrainingJobName", "Equals"), HasSubstr("needs a Value"));
  EXPECT_THAT(one("Metrics.a", "Equals", "high"), HasSubstr("is not a number"));
  EXPECT_THAT(one("CreationTime", "Equals", "today"), HasSubstr("is not a time"));
  json other = nested("a", "b");
  other["NestedFilters"][0]["NestedPropertyName"] = "ResourceConfig";
  EXPECT_THAT(answer(other), HasSubstr("no property of the elements of 'ResourceConfig'"));
}

TEST(SearchExpression, IsOfLimitedSize) {
  json expression = {{"Filters", std::vector<json>(20, filter("TrainingJobName", "Exists"))}};
  for (int depth = 0; depth < 2; ++depth) {
    expression = {{"SubExpressions", std::vector<json>(20, expression)}};
  }
  EXPECT_THAT(answer(expression), HasSubstr("more than 200 conditions"));
}

}  // namespace
}  // namespace trainyard::control
