// SPDX-License-Identifier: Apache-2.0
#include "api/validate.h"

#include <cmath>
#include <limits>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "api/floats.h"
#include "api/model.h"
#include "api/pattern.h"
#include "testing/aws_requests.h"

namespace trainyard::api {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;

std::string complaint(const Json& input, std::string_view operation = "CreateTrainingJob",
                      std::string_view service = "sagemaker") {
  const Result<void> result = validate(service, operation, input);
  return result ? "" : result.error().message;
}

Json with(std::string_view pointer, Json value) {
  Json job = testing::small_training_job();
  job[Json::json_pointer(std::string(pointer))] = std::move(value);
  return job;
}

Json without(const std::string& member) {
  Json job = testing::small_training_job();
  job.erase(member);
  return job;
}

TEST(Validate, AcceptsAnOrdinaryJob) {
  EXPECT_EQ(complaint(testing::small_training_job()), "");
}

TEST(Validate, NamesBothOfTwoViolationsInOneError) {
  Json job = with("/TrainingJobName", "a_b");
  job["ResourceConfig"]["InstanceCount"] = 0;
  const std::string message = complaint(job);
  EXPECT_THAT(message, StartsWith("2 validation errors detected: "));
  EXPECT_THAT(message, HasSubstr("Value 'a_b' at 'trainingJobName' failed to satisfy constraint: "
                                 "Member must satisfy regular expression pattern: "
                                 "[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}"));
  EXPECT_THAT(message, HasSubstr("Value '0' at 'resourceConfig.instanceCount' failed to satisfy "
                                 "constraint: Member must have value greater than or equal to 1"));
}

TEST(Validate, CallsANumberBeyond64BitsTooLargeAndNoFraction) {
  const auto of_log_events = [](const char* number) {
    const Json input =
        Json::parse(std::string(R"({"logGroupName":"g","startTime":)") + number + "}");
    return complaint(input, "FilterLogEvents", "logs");
  };
  EXPECT_EQ(of_log_events("9223372036854775808"),
            "Numeric value (9223372036854775808) out of range of Long at 'startTime'");
  EXPECT_THAT(of_log_events("-9223372036854775809"),
              ::testing::EndsWith("out of range of Long at 'startTime'"));
  EXPECT_THAT(of_log_events("1e300"), ::testing::EndsWith("out of range of Long at 'startTime'"));
  EXPECT_EQ(of_log_events("1.5"), "DECIMAL_VALUE can not be converted to a Long at 'startTime'");
}

TEST(Validate, SaysNullForAMissingMember) {
  EXPECT_EQ(complaint(without("RoleArn")),
            "1 validation error detected: Value null at 'roleArn' failed to satisfy constraint: "
            "Member must not be null");
  EXPECT_EQ(complaint(with("/RoleArn", nullptr)), complaint(without("RoleArn")));
}

class LegalJobName : public ::testing::TestWithParam<std::string> {};
TEST_P(LegalJobName, IsAccepted) {
  EXPECT_EQ(complaint(with("/TrainingJobName", GetParam())), "");
}
INSTANTIATE_TEST_SUITE_P(Case42, LegalJobName,
                         ::testing::Values("a", "A-1", "a--b", std::string(63, 'x')));

class IllegalJobName : public ::testing::TestWithParam<std::string> {};
TEST_P(IllegalJobName, IsRefusedWithFieldValueAndPattern) {
  const std::string message = complaint(with("/TrainingJobName", GetParam()));
  EXPECT_THAT(message, HasSubstr("Value '" + GetParam() + "' at 'trainingJobName'"));
  EXPECT_THAT(message, HasSubstr("pattern: [a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}"));
}
INSTANTIATE_TEST_SUITE_P(Case42, IllegalJobName,
                         ::testing::Values("", "-a", "a-", "a_b", "a.b", "\u00e4",
                                           std::string(64, 'x')));

TEST(Validate, CountsLengthsInCharacters) {
  std::string text;
  for (int i = 0; i < 2'500; ++i) {
    text += "\u65e5";
  }
  EXPECT_EQ(complaint(with("/HyperParameters", {{"k", text}})), "");
  EXPECT_THAT(complaint(with("/HyperParameters", {{"k", text + "x"}})),
              HasSubstr("at 'hyperParameters.k' failed to satisfy constraint: Member must have "
                        "length less than or equal to 2500"));
}

TEST(Validate, KeepsEveryOddHyperparameter) {
  const Json odd = {{"quotes", "a'b\"c"}, {"lines", "a\nb\r\nc"}, {"shell", "$(id) `id` $HOME"},
                    {"empty", ""},        {"minus", "-1"},        {"text", "\u65e5\u672c\u8a9e"}};
  EXPECT_EQ(complaint(with("/HyperParameters", odd)), "");
}

TEST(Validate, ListsEveryBadEnvironmentEntryAtOnce) {
  const std::string message = complaint(with(
      "/Environment", {{"1A", "x"}, {"A-B", "x"}, {"GOOD", "x"}, {"LONG", std::string(513, 'x')}}));
  EXPECT_THAT(message, StartsWith("3 validation errors detected: "));
  EXPECT_THAT(message, HasSubstr("Value '1A' at 'environment' failed to satisfy constraint: Map "
                                 "keys must satisfy constraint: [Member must satisfy regular "
                                 "expression pattern: [a-zA-Z_][a-zA-Z0-9_]*]"));
  EXPECT_THAT(message, HasSubstr("Value 'A-B' at 'environment'"));
  EXPECT_THAT(message, HasSubstr("at 'environment.LONG' failed to satisfy constraint: Member must "
                                 "have length less than or equal to 512"));
  EXPECT_THAT(message, Not(HasSubstr("GOOD")));
}

TEST(Validate, RefusesTooManyEnvironmentEntries) {
  Json many = Json::object();
  for (int i = 0; i < 101; ++i) {
    many["K" + std::to_string(i)] = "x";
  }
  EXPECT_THAT(complaint(with("/Environment", many)),
              HasSubstr("Value '[101 entries]' at 'environment' failed to satisfy constraint: "
                        "Member must have length less than or equal to 100"));
}

TEST(Validate, RefusesTheTwentyFirstChannel) {
  Json channels = Json::array();
  for (int i = 0; i < 21; ++i) {
    channels.push_back(testing::s3_channel("c" + std::to_string(i), "s3://data/x"));
  }
  EXPECT_THAT(complaint(with("/InputDataConfig", channels)),
              HasSubstr("at 'inputDataConfig' failed to satisfy constraint: Member must have "
                        "length less than or equal to 20"));
}

TEST(Validate, PrintsNestedPathsAsTheServiceDoes) {
  EXPECT_THAT(complaint(with("/InputDataConfig/0/ChannelName", "a/b")),
              HasSubstr("Value 'a/b' at 'inputDataConfig.1.member.channelName'"));
  EXPECT_THAT(complaint(with("/StoppingCondition/MaxRuntimeInSeconds", 0)),
              HasSubstr("Value '0' at 'stoppingCondition.maxRuntimeInSeconds' failed to satisfy "
                        "constraint: Member must have value greater than or equal to 1"));
}

TEST(Validate, ListsTheEnumValues) {
  EXPECT_THAT(complaint(with("/AlgorithmSpecification/TrainingInputMode", "Files")),
              HasSubstr("Member must satisfy enum value set: [Pipe, File, FastFile]"));
}

TEST(Validate, AcceptsInstanceTypesThatTheModelDoesNotKnow) {
  EXPECT_EQ(complaint(with("/ResourceConfig/InstanceType", "ml.z9-next.512xlarge")), "");
  EXPECT_THAT(complaint(with("/ResourceConfig/InstanceType", "p4d.24xlarge")),
              HasSubstr("at 'resourceConfig.instanceType' failed to satisfy constraint: Member "
                        "must satisfy enum value set: ["));
}

TEST(Validate, CallsAWrongTypeASerializationErrorAndListsTheRest) {
  Json job = with("/ResourceConfig/InstanceCount", "2");
  job["HyperParameters"]["epochs"] = 3;
  job.erase("RoleArn");
  const Result<void> result = validate("sagemaker", "CreateTrainingJob", job);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().subject, "serialization");
  const std::string& message = result.error().message;
  EXPECT_THAT(message, HasSubstr("STRING_VALUE can not be converted to a Integer at "
                                 "'resourceConfig.instanceCount'"));
  EXPECT_THAT(message, HasSubstr("NUMBER_VALUE can not be converted to a String at "
                                 "'hyperParameters.epochs'"));
  EXPECT_THAT(message, HasSubstr("Value null at 'roleArn'"));
}

TEST(Validate, RefusesNumbersThatDoNotFit) {
  EXPECT_THAT(complaint(with("/ResourceConfig/InstanceCount", 4'000'000'000u)),
              HasSubstr("Numeric value (4000000000) out of range of Integer"));
  EXPECT_THAT(complaint(with("/ResourceConfig/InstanceCount", 18'446'744'073'709'551'615u)),
              HasSubstr("out of range of Integer"));
  EXPECT_THAT(complaint(with("/ResourceConfig/InstanceCount", 1.5)),
              HasSubstr("DECIMAL_VALUE can not be converted to a Integer"));
}

TEST(Validate, SurvivesABodyThatIsNoObject) {
  for (const Json& body : {Json(nullptr), Json("x"), Json::array({1}), Json(3)}) {
    EXPECT_FALSE(validate("sagemaker", "CreateTrainingJob", body).has_value()) << body;
  }
}

TEST(Validate, CutsLongValuesAndLongMessages) {
  const std::string message = complaint(with("/RoleArn", std::string(1'000'000, 'x')));
  EXPECT_LT(message.size(), 1'000u);
  Json job = with("/Environment", Json::object());
  job["HyperParameters"] = Json::object();
  for (int i = 0; i < 100; ++i) {
    const std::string key = "-" + std::to_string(i) + std::string(600, '-');
    job["Environment"][key] = std::string(600, 'x');
    job["HyperParameters"][key] = std::string(2'600, 'x');
  }
  const std::string large = complaint(job);
  EXPECT_LT(large.size(), 40'000u);
  EXPECT_THAT(large, HasSubstr(" more"));
}

TEST(Validate, RefusesOperationsThatAreNotServed) {
  const Result<void> result = validate("sagemaker", "CreateEndpoint", Json::object());
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, Code::kUnimplemented);
  EXPECT_EQ(result.error().subject, "operation");
}

TEST(UnknownMembers, AreNamedByPathAndOtherwiseIgnored) {
  Json job = with("/Shiny", 1);
  job["ResourceConfig"]["NodeKind"] = "fast";
  job["InputDataConfig"][0]["Speed"] = true;
  EXPECT_EQ(complaint(job), "");
  EXPECT_THAT(unknown_members("sagemaker", "CreateTrainingJob", job),
              ::testing::UnorderedElementsAre("shiny", "resourceConfig.nodeKind",
                                              "inputDataConfig.1.member.speed"));
}

TEST(CheckOutput, FindsWhatATypedClientWouldMiss) {
  EXPECT_TRUE(
      check_output("sagemaker", "CreateTrainingJob",
                   {{"TrainingJobArn", "arn:aws:sagemaker:us-east-1:123456789012:training-job/a"}})
          .has_value());
  const auto broken = check_output("sagemaker", "DescribeTrainingJob", {{"TrainingJobName", "a"}});
  ASSERT_FALSE(broken.has_value());
  EXPECT_EQ(broken.error().code, Code::kInternal);
  EXPECT_THAT(broken.error().message, HasSubstr("'stoppingCondition'"));
}

TEST(CheckOutput, TakesFloatsThatJsonHasNoNumberFor) {
  const auto check = [](const Json& value) {
    return check_output("cloudwatch", "GetMetricStatistics",
                        {{"Datapoints", {{{"Timestamp", 1}, {"Average", value}}}}})
        .has_value();
  };
  for (const double value :
       {0.5, std::nan(""), std::numeric_limits<double>::infinity(), -HUGE_VAL}) {
    EXPECT_TRUE(check(to_float(value))) << value;
  }
  EXPECT_EQ(to_float(std::nan("")), "NaN");
  EXPECT_EQ(to_float(-HUGE_VAL), "-Infinity");
  EXPECT_FALSE(check("nan"));
}

// --- Every constraint of every served operation, violated once ---

struct Violation {
  std::string operation;
  Json input;
  std::string expected;
};

std::string lower_first(std::string_view text) {
  std::string out(text);
  out[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(out[0])));
  return out;
}

class Generator {
 public:
  explicit Generator(const Operation& operation) : operation_(operation) {
    if (operation.input != kNoShape) {
      visit(shapes()[operation.input], Json::json_pointer(), "");
    }
  }
  std::vector<Violation> take() { return std::move(found_); }

 private:
  void add(const Json::json_pointer& place, const std::string& path, Json value,
           const std::string& constraint) {
    Json input = Json::object();
    input[place] = std::move(value);
    found_.push_back({std::string(operation_.name), std::move(input),
                      " at '" + path + "' failed to satisfy constraint: " + constraint});
  }

  // A shape inside itself (an expression of expressions) is visited once.
  void visit(const Shape& shape, const Json::json_pointer& place, const std::string& path) {
    if (!open_.insert(&shape).second) {
      return;
    }
    visit_open(shape, place, path);
    open_.erase(&shape);
  }

  void visit_open(const Shape& shape, const Json::json_pointer& place, const std::string& path) {
    switch (shape.kind) {
      case ShapeKind::kStructure:
        for (const Member& member : shape.members) {
          const std::string below =
              path.empty() ? lower_first(member.name) : path + "." + lower_first(member.name);
          if (member.required) {
            add(place, below, Json::object(), "Member must not be null");
          }
          visit(shapes()[member.shape], place / std::string(member.name), below);
        }
        break;
      case ShapeKind::kList:
        bounds(shape, place, path, "length", [](std::int64_t n) {
          return Json(std::vector<Json>(static_cast<std::size_t>(n), Json("a")));
        });
        visit(shapes()[shape.item], place / 0, path + ".1.member");
        break;
      case ShapeKind::kMap:
        bounds(shape, place, path, "length", [](std::int64_t n) {
          Json map = Json::object();
          for (std::int64_t i = 0; i < n; ++i) {
            map["k" + std::to_string(i)] = "v";
          }
          return map;
        });
        visit(shapes()[shape.item], place / "k", path + ".k");
        break;
      case ShapeKind::kString:
        visit_string(shape, place, path);
        break;
      case ShapeKind::kInteger:
      case ShapeKind::kLong:
        bounds(shape, place, path, "value", [](std::int64_t n) { return Json(n); });
        break;
      default:
        break;
    }
  }

  void visit_string(const Shape& shape, const Json::json_pointer& place, const std::string& path) {
    bounds(shape, place, path, "length",
           [](std::int64_t n) { return Json(std::string(static_cast<std::size_t>(n), 'a')); });
    if (!shape.enumeration.empty()) {
      add(place, path, "no such value", "Member must satisfy enum value set: [");
    }
    for (const char* candidate : {"*:\n", "", "\u00e4 b", "\x01"}) {
      if (!matches_pattern(shape, candidate)) {
        add(place, path, candidate,
            "Member must satisfy regular expression pattern: " + std::string(shape.pattern));
        return;
      }
    }
  }

  template <typename Make>
  void bounds(const Shape& shape, const Json::json_pointer& place, const std::string& path,
              const std::string& what, Make make) {
    const std::string start = "Member must have " + what;
    const bool fits_below = shape.kind == ShapeKind::kInteger || shape.kind == ShapeKind::kLong ||
                            shape.min.value_or(0) > 0;
    if (shape.min.has_value() && fits_below) {
      add(place, path, make(*shape.min - 1),
          start + " greater than or equal to " + std::to_string(*shape.min));
    }
    if (shape.max.has_value()) {
      add(place, path, make(*shape.max + 1),
          start + " less than or equal to " + std::to_string(*shape.max));
    }
  }

  const Operation& operation_;
  std::set<const Shape*> open_;
  std::vector<Violation> found_;
};

TEST(Validate, ReportsEveryConstraintOfEveryServedOperation) {
  std::size_t count = 0;
  for (const Operation& operation : operations()) {
    for (const Violation& violation : Generator(operation).take()) {
      EXPECT_THAT(complaint(violation.input, operation.name, operation.service),
                  HasSubstr(violation.expected))
          << operation.name << " " << violation.input.dump().substr(0, 200);
      ++count;
    }
  }
  EXPECT_GT(count, 200u);
}

}  // namespace
}  // namespace trainyard::api
