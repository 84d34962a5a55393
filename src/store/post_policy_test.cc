// SPDX-License-Identifier: Apache-2.0
#include "store/post_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/encoding.h"

namespace trainyard::store {
namespace {

using testing::HasSubstr;
using Fields = std::map<std::string, std::string>;

const WallTime kNow = *parse_iso8601("2026-11-29T20:00:00Z");

Result<PostPolicy> parse(const std::string& conditions,
                         const std::string& expiration = "2026-11-29T21:00:00.000Z") {
  return parse_post_policy(
      to_base64(R"({"expiration": ")" + expiration + R"(", "conditions": [)" + conditions + "]}"));
}

// Empty when the policy allows it.
std::string why_not(const std::string& conditions, const Fields& fields) {
  const auto policy = parse(R"({"bucket": "data"}, )" + conditions);
  EXPECT_TRUE(policy) << policy.error().message;
  const auto allowed = check_post_policy(*policy, fields, "data", kNow);
  EXPECT_TRUE(allowed ||
              (allowed.error().code == Code::kDenied && allowed.error().subject == "access"));
  return allowed ? "" : allowed.error().message;
}

TEST(PostPolicy, ComparesWholeValuesAndBeginnings) {
  const std::string user = R"(["starts-with", "$key", "user/"])";
  EXPECT_EQ(why_not(user, {{"key", "user/a"}}), "");
  EXPECT_EQ(why_not(user, {{"key", "user/"}}), "");
  EXPECT_EQ(why_not(user, {{"key", "users"}}),
            "Invalid according to Policy: Policy Condition failed: "
            "[\"starts-with\", \"$key\", \"user/\"]");
  const std::string acl = R"({"key": "k"}, ["EQ", "$ACL", "private"])";
  EXPECT_EQ(why_not(acl, {{"key", "k"}, {"acl", "private"}}), "");
  EXPECT_THAT(why_not(acl, {{"key", "k"}, {"acl", "Private"}}),
              HasSubstr("failed: [\"eq\", \"$acl\", \"private\"]"));
  EXPECT_THAT(why_not(acl, {{"key", "k2"}, {"acl", "private"}}), HasSubstr("\"$key\", \"k\""));
}

TEST(PostPolicy, WantsEachFieldThatItSpeaksOfAndNoOther) {
  const std::string any = R"(["starts-with", "$key", ""], ["starts-with", "$x-amz-meta-a", ""])";
  EXPECT_EQ(why_not(any, {{"key", "k"}, {"x-amz-meta-a", ""}}), "");
  EXPECT_THAT(why_not(any, {{"key", "k"}}), HasSubstr("$x-amz-meta-a"));
  EXPECT_EQ(why_not(any, {{"key", "k"}, {"x-amz-meta-a", "1"}, {"acl", "x"}, {"tagging", "y"}}),
            "Invalid according to Policy: Extra input fields: acl, tagging");
}

TEST(PostPolicy, NeedNotCoverItselfItsSignatureAndWhatIsToBeIgnored) {
  EXPECT_EQ(
      why_not(R"({"key": "k"})",
              {{"key", "k"}, {"policy", "p"}, {"x-amz-signature", "s"}, {"x-ignore-this", "i"}}),
      "");
}

TEST(PostPolicy, SpeaksOfTheBucketOfTheUrl) {
  const auto none = parse(R"({"key": "k"})");
  EXPECT_THAT(check_post_policy(*none, {{"key", "k"}}, "data", kNow).error().message,
              HasSubstr("Extra input fields: bucket"));
  const auto other = parse(R"({"key": "k"}, {"bucket": "other"})");
  EXPECT_THAT(
      check_post_policy(*other, {{"key", "k"}, {"bucket", "other"}}, "data", kNow).error().message,
      HasSubstr("[\"eq\", \"$bucket\", \"other\"]"));
}

TEST(PostPolicy, Expires) {
  const auto policy = parse(R"({"bucket": "data"})", "2026-11-29T20:00:00Z");
  ASSERT_TRUE(policy);
  EXPECT_TRUE(check_post_policy(*policy, {}, "data", kNow - std::chrono::seconds(1)));
  EXPECT_EQ(check_post_policy(*policy, {}, "data", kNow).error().message,
            "Invalid according to Policy: Policy expired.");
}

TEST(PostPolicy, NarrowsTheLengthWithEachRange) {
  EXPECT_EQ(parse("").value().least, 0u);
  const auto policy =
      parse(R"(["content-length-range", 5, 100], ["content-length-range", "2", "50"])");
  ASSERT_TRUE(policy);
  EXPECT_EQ(policy->least, 5u);
  EXPECT_EQ(policy->most, 50u);
}

class BadPolicy : public testing::TestWithParam<const char*> {};

TEST_P(BadPolicy, IsRefused) {
  const auto policy = parse(GetParam());
  ASSERT_FALSE(policy);
  EXPECT_EQ(policy.error().subject, "policy-document");
}

INSTANTIATE_TEST_SUITE_P(
    Conditions, BadPolicy,
    testing::Values("1", "null", "{}", "[]", R"({"key": 1})", R"({"key": ["a"]})",
                    R"(["eq", "$key"])", R"(["eq", "key", "v"])", R"(["eq", "$key", 1])",
                    R"(["eq", "$key", "v", "w"])", R"(["ends-with", "$key", "v"])",
                    R"([1, "$key", "v"])", R"(["content-length-range", 1])",
                    R"(["content-length-range", -1, 5])", R"(["content-length-range", 1, "x"])",
                    R"(["content-length-range", 1, 2.5])", R"(["eq", "$key", [[[[1]]]]])"));

TEST(PostPolicy, IsRefusedWithoutItsTwoMembers) {
  for (const char* text :
       {"", "[]", "{", "{}", R"({"conditions": []})", R"({"expiration": 5, "conditions": []})",
        R"({"expiration": "tomorrow", "conditions": []})",
        R"({"expiration": "2026-11-29T20:00:00Z"})",
        R"({"expiration": "2026-11-29T20:00:00Z", "conditions": {}})"}) {
    EXPECT_EQ(parse_post_policy(to_base64(text)).error().subject, "policy-document") << text;
  }
  EXPECT_EQ(parse_post_policy("not base64").error().subject, "policy-document");
  EXPECT_FALSE(parse_post_policy(to_base64(std::string(30'000, ' '))));
}

TEST(PostPolicy, PutsTheNameOfTheFileIn) {
  EXPECT_EQ(expand_file_name("user/${filename}", "a.txt"), "user/a.txt");
  EXPECT_EQ(expand_file_name("${filename}${filename}", "x"), "xx");
  EXPECT_EQ(expand_file_name("${filename}", "${filename}"), "${filename}");
  EXPECT_EQ(expand_file_name("${file}", "x"), "${file}");
  EXPECT_EQ(expand_file_name("", "x"), "");
}

TEST(PostPolicy, KnowsHowLongThatWillBe) {
  for (const char* value : {"", "a", "${filename}", "a${filename}b${filename}", "${file"}) {
    for (const char* name : {"", "x", "a name that is longer.txt", "${filename}"}) {
      EXPECT_EQ(expanded_size(value, name), expand_file_name(value, name).size()) << value << name;
    }
  }
}

}  // namespace
}  // namespace trainyard::store
