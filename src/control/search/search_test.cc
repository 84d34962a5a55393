// SPDX-License-Identifier: Apache-2.0
#include "control/search/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/validate.h"
#include "control/testing/harness.h"

namespace trainyard::control {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// No room: all but the first job wait where a test can look at them.
class SearchTest : public ::testing::Test {
 protected:
  SearchTest() {
    for (const char* name : {"c", "a", "b", "d"}) {
      json request = job_request(1);
      request["HyperParameters"] = {{"layers", std::string(1, static_cast<char>('0' + count_++))}};
      request["Tags"] = json::array({{{"Key", "first"}, {"Value", name}}});
      EXPECT_TRUE(harness_.create(name, 1, request));
      harness_.clock().advance(std::chrono::seconds(1));
    }
  }

  Result<json> search(json input) {
    input["Resource"] = "TrainingJob";
    auto answer = harness_.call("Search", input);
    if (answer) {
      const auto checked = api::check_output("sagemaker", "Search", *answer);
      EXPECT_TRUE(checked) << checked.error().message;
    }
    return answer;
  }
  std::vector<std::string> names(const json& input) {
    const auto answer = search(input);
    EXPECT_TRUE(answer) << answer.error().message;
    std::vector<std::string> names;
    for (const json& result : answer->at("Results")) {
      names.push_back(result["TrainingJob"]["TrainingJobName"].get<std::string>());
    }
    return names;
  }
  static json where(const std::string& name, const std::string& how, const std::string& value) {
    return {{"Filters", std::vector<json>{{{"Name", name}, {"Operator", how}, {"Value", value}}}}};
  }

  Harness harness_{1};
  int count_ = 0;
};

TEST_F(SearchTest, FindsByPropertyOfTheRequest) {
  EXPECT_THAT(names({{"SearchExpression", where("HyperParameters.layers", "GreaterThan", "1")},
                     {"SortBy", "TrainingJobName"},
                     {"SortOrder", "Ascending"}}),
              ElementsAre("b", "d"));
  EXPECT_THAT(names({{"SearchExpression", where("Tags.first", "Equals", "a")}}), ElementsAre("a"));
  EXPECT_THAT(names({{"SearchExpression", where("TrainingJobStatus", "Equals", "Failed")}}),
              IsEmpty());
}

TEST_F(SearchTest, ShowsJobsAsDescribeDoesWithTheirTags) {
  json described;
  json answer;
  do {  // it may be told meanwhile that it waits
    described = harness_.describe("a");
    answer = *search({{"SearchExpression", where("TrainingJobName", "Equals", "a")}});
  } while (described != harness_.describe("a"));
  json job = answer["Results"][0]["TrainingJob"];
  EXPECT_EQ(job["Tags"], json::array({{{"Key", "first"}, {"Value", "a"}}}));
  job.erase("Tags");
  EXPECT_EQ(job, described);
  EXPECT_EQ(answer["TotalHits"], (json{{"Value", 1}, {"Relation", "EqualTo"}}));
}

TEST_F(SearchTest, SortsByAnyPropertyTheLatestFirstUnlessAskedOtherwise) {
  EXPECT_THAT(names({{"SortBy", "CreationTime"}}), ElementsAre("d", "b", "a", "c"));
  EXPECT_THAT(names({{"SortBy", "HyperParameters.layers"}, {"SortOrder", "Ascending"}}),
              ElementsAre("c", "a", "b", "d"));
  EXPECT_THAT(names({{"SortBy", "FailureReason"}}), ElementsAre("a", "b", "c", "d"));
}

TEST_F(SearchTest, PagesWithoutLossOrRepetition) {
  for (const char* order : {"Ascending", "Descending"}) {
    json input = {{"SortBy", "TrainingJobName"}, {"SortOrder", order}, {"MaxResults", 3}};
    std::vector<std::string> all;
    int pages = 0;
    do {
      const auto answer = search(input);
      ASSERT_TRUE(answer) << answer.error().message;
      for (const json& result : answer->at("Results")) {
        all.push_back(result["TrainingJob"]["TrainingJobName"].get<std::string>());
      }
      input["NextToken"] = answer->value("NextToken", json());
      EXPECT_EQ(answer->at("TotalHits")["Value"], 4);
      ++pages;
    } while (!input["NextToken"].is_null() && pages < 10);
    EXPECT_EQ(pages, 2);
    std::vector<std::string> expected = {"a", "b", "c", "d"};
    if (order[0] == 'D') {
      std::reverse(expected.begin(), expected.end());
    }
    EXPECT_EQ(all, expected);
  }
}

TEST_F(SearchTest, GivesNoTokenWhenTheLastPageIsFull) {
  EXPECT_FALSE(search({{"MaxResults", 4}})->contains("NextToken"));
}

TEST_F(SearchTest, FindsByTheLastValueOfAMetric) {
  json request = job_request(1);
  request["AlgorithmSpecification"]["MetricDefinitions"] =
      json::array({{{"Name", "loss"}, {"Regex", "loss=(.*)"}}});
  harness_.close();
  harness_.open();
  Harness other;
  ASSERT_TRUE(other.create("measured", 1, request));
  Speaker only(other, "measured", "algo-1");
  ASSERT_TRUE(only.report({.points = {{.metric = "loss", .at = kTestTime, .value = 1.5}}}));
  const auto found = other.call(
      "Search",
      {{"Resource", "TrainingJob"}, {"SearchExpression", where("Metrics.loss", "LessThan", "2")}});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->at("Results").size(), 1U);
}

TEST_F(SearchTest, RefusesWhatItCannotAnswer) {
  EXPECT_THAT(search({{"SortBy", "Color"}}).error().message, HasSubstr("Unknown property name"));
  EXPECT_THAT(search({{"SortBy", "ResourceConfig"}}).error().message, HasSubstr("has no order"));
  EXPECT_EQ(search({{"NextToken", "garbage"}}).error().code, Code::kInvalidArgument);
  EXPECT_THAT(harness_.call("Search", {{"Resource", "Experiment"}}).error().message,
              HasSubstr("Experiment at 'resource' cannot be searched on this server: it serves "
                        "TrainingJob"));
}

}  // namespace
}  // namespace trainyard::control
