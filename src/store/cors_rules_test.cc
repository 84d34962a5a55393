// SPDX-License-Identifier: Apache-2.0
#include "store/cors_rules.h"

#include <gtest/gtest.h>

namespace trainyard::store {
namespace {

CorsRules rules_for_tests() {
  return {{.id = "app",
           .origins = {"https://*.example.com", "http://localhost:3000"},
           .methods = {"GET", "PUT"},
           .headers = {"x-amz-*", "Content-Type"},
           .exposed = {"ETag", "x-amz-request-id"},
           .max_age = 600},
          {.origins = {"*"}, .methods = {"GET"}}};
}

TEST(CorsDocument, ComesBackAsItWas) {
  const auto again = parse_cors(cors_document(rules_for_tests()));
  ASSERT_TRUE(again);
  ASSERT_EQ(again->size(), 2u);
  EXPECT_EQ(again->front().id, "app");
  EXPECT_EQ(again->front().origins, rules_for_tests().front().origins);
  EXPECT_EQ(again->front().headers, rules_for_tests().front().headers);
  EXPECT_EQ(again->front().exposed, rules_for_tests().front().exposed);
  EXPECT_EQ(again->front().max_age, 600);
  EXPECT_FALSE(again->back().max_age);
}

struct BadCors {
  const char* rule;
  const char* subject;
};

class BadCorsDocument : public testing::TestWithParam<BadCors> {};

TEST_P(BadCorsDocument, IsRefused) {
  const auto parsed =
      parse_cors("<CORSConfiguration>" + std::string(GetParam().rule) + "</CORSConfiguration>");
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().subject, GetParam().subject);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, BadCorsDocument,
    testing::Values(
        BadCors{"", "xml"}, BadCors{"<CORSRule/>", "xml"},
        BadCors{"<CORSRule><AllowedOrigin>*</AllowedOrigin></CORSRule>", "xml"},
        BadCors{"<CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>PATCH</AllowedMethod>"
                "</CORSRule>",
                "request"},
        BadCors{"<CORSRule><AllowedOrigin>*.*</AllowedOrigin><AllowedMethod>GET</AllowedMethod>"
                "</CORSRule>",
                "request"},
        BadCors{"<CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod>"
                "<ExposeHeader>x-*</ExposeHeader></CORSRule>",
                "request"},
        BadCors{"<CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod>"
                "<MaxAgeSeconds>soon</MaxAgeSeconds></CORSRule>",
                "xml"}));

TEST(CorsRequest, TakesTheFirstRuleThatFits) {
  const auto named = allow_request(rules_for_tests(), "https://app.example.com", "PUT");
  ASSERT_TRUE(named);
  EXPECT_EQ(named->get("Access-Control-Allow-Origin"), "https://app.example.com");
  EXPECT_EQ(named->get("Access-Control-Allow-Credentials"), "true");
  EXPECT_EQ(named->get("Access-Control-Expose-Headers"), "ETag, x-amz-request-id");
  EXPECT_FALSE(named->get("Vary").empty());
  const auto any = allow_request(rules_for_tests(), "https://elsewhere.org", "GET");
  ASSERT_TRUE(any);
  EXPECT_EQ(any->get("Access-Control-Allow-Origin"), "*");
  EXPECT_EQ(any->find("Access-Control-Allow-Credentials"), nullptr);
  EXPECT_FALSE(allow_request(rules_for_tests(), "https://elsewhere.org", "PUT"));
  EXPECT_FALSE(allow_request(rules_for_tests(), "https://example.com.evil.org", "PUT"));
}

TEST(CorsPreflight, AsksForEveryHeader) {
  const auto rules = rules_for_tests();
  const auto allowed =
      allow_preflight(rules, "http://localhost:3000", "PUT", "X-Amz-Date, content-type");
  ASSERT_TRUE(allowed);
  EXPECT_EQ(allowed->get("Access-Control-Allow-Headers"), "x-amz-date, content-type");
  EXPECT_EQ(allowed->get("Access-Control-Max-Age"), "600");
  EXPECT_FALSE(allow_preflight(rules, "http://localhost:3000", "PUT", "authorization"));
  EXPECT_TRUE(allow_preflight(rules, "http://other", "GET", ""));
  EXPECT_FALSE(allow_preflight(rules, "http://other", "GET", "x-amz-date"));
}

}  // namespace
}  // namespace trainyard::store
