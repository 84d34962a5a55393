// SPDX-License-Identifier: Apache-2.0
#include "doctor/finding.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace trainyard::doctor {
namespace {

Findings some() {
  return {{.check = "a", .verdict = Verdict::kOk, .meaning = "well"},
          {.check = "b", .verdict = Verdict::kWarn, .meaning = "so so", .remedy = "do it"},
          {.check = "c", .verdict = Verdict::kOk, .meaning = "well"}};
}

TEST(Findings, AreAsBadAsTheWorst) {
  EXPECT_EQ(worst({}), Verdict::kOk);
  EXPECT_EQ(worst(some()), Verdict::kWarn);
  Findings more = some();
  more.push_back({.check = "d", .verdict = Verdict::kBad, .meaning = "no", .remedy = "yes"});
  EXPECT_EQ(worst(more), Verdict::kBad);
}

TEST(Findings, AreLinesForPeople) {
  EXPECT_EQ(to_text(some()),
            "ok   a                   well\n"
            "warn b                   so so\n"
            "                         -> do it\n"
            "ok   c                   well\n"
            "2 ok, 1 to look at, 0 bad\n");
}

TEST(Findings, AreJsonForPrograms) {
  const auto json = nlohmann::json::parse(to_json(some()));
  EXPECT_EQ(json.at("verdict"), "warn");
  ASSERT_EQ(json.at("checks").size(), 3U);
  EXPECT_EQ(json.at("checks")[1],
            (nlohmann::json{
                {"check", "b"}, {"verdict", "warn"}, {"meaning", "so so"}, {"remedy", "do it"}}));
}

TEST(Findings, WithBytesThatAreNoTextAreJsonAllTheSame) {
  const Findings odd = {{.check = "a", .verdict = Verdict::kOk, .meaning = "\xff"}};
  EXPECT_FALSE(nlohmann::json::parse(to_json(odd)).at("checks").empty());
}

}  // namespace
}  // namespace trainyard::doctor
