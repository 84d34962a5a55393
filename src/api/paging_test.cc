// SPDX-License-Identifier: Apache-2.0
#include "api/paging.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "api/timestamps.h"

namespace trainyard::api {
namespace {

using Json = nlohmann::json;

TEST(NextToken, BringsTheStateBack) {
  const Json state = {{"after", "demo-\u65e5"}, {"n", 3}};
  EXPECT_EQ(*decode_token("List", encode_token("List", state)), state);
}

TEST(NextToken, RefusesGarbageAndTokensOfOthers) {
  const std::string token = encode_token("List", {{"after", "a"}});
  EXPECT_EQ(decode_token("Other", token).error().code, Code::kInvalidArgument);
  for (const std::string& text :
       {std::string(), std::string("x"), std::string("AAAA"), token.substr(4), token + "AAAA",
        std::string(10'000, 'A'), std::string("f/123")}) {
    EXPECT_FALSE(decode_token("List", text).has_value()) << text;
  }
}

TEST(NextToken, NoticesEveryChangedCharacter) {
  const std::string token = encode_token("List", {{"after", "a"}});
  for (std::size_t i = 0; i < token.size(); ++i) {
    std::string changed = token;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    const auto state = decode_token("List", changed);
    EXPECT_TRUE(!state || *state == Json({{"after", "a"}})) << i;
  }
}

TEST(Timestamps, KeepMilliseconds) {
  const WallTime time{std::chrono::milliseconds(1'764'447'125'250)};
  EXPECT_DOUBLE_EQ(to_timestamp(time).get<double>(), 1'764'447'125.25);
  EXPECT_EQ(*from_timestamp(to_timestamp(time)), time);
  EXPECT_EQ(*from_timestamp(Json(1'764'447'125)), WallTime(std::chrono::seconds(1'764'447'125)));
  EXPECT_EQ(*from_milliseconds(to_milliseconds(time)), time);
}

TEST(Timestamps, RefuseWhatNoClockShows) {
  for (const Json& odd : {Json("2026"), Json(1e300), Json(-1e300), Json(nullptr)}) {
    EXPECT_FALSE(from_timestamp(odd).has_value()) << odd;
  }
  EXPECT_FALSE(from_milliseconds(Json(18'446'744'073'709'551'615u)).has_value());
  EXPECT_FALSE(from_milliseconds(Json(1.5)).has_value());
}

}  // namespace
}  // namespace trainyard::api
