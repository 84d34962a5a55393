// SPDX-License-Identifier: Apache-2.0
#include "store/conditions.h"

#include <gtest/gtest.h>

namespace trainyard::store {
namespace {

const s3::ObjectInfo kObject{
    .key = "k",
    .size = 10,
    .etag = "abc",
    .last_modified = *parse_http_date("Sun, 29 Nov 2026 20:12:05 GMT") + Duration(500)};

constexpr const char* kSame = "Sun, 29 Nov 2026 20:12:05 GMT";
constexpr const char* kBefore = "Sun, 29 Nov 2026 20:12:04 GMT";

struct Condition {
  std::vector<std::pair<const char*, const char*>> headers;
  Verdict verdict;
};

class Judge : public testing::TestWithParam<Condition> {};

TEST_P(Judge, FollowsTheRfc) {
  http::Headers headers;
  for (const auto& [name, value] : GetParam().headers) {
    headers.add(name, value);
  }
  EXPECT_EQ(judge(headers, "", kObject), GetParam().verdict);
}

INSTANTIATE_TEST_SUITE_P(
    Headers, Judge,
    testing::Values(
        Condition{{}, Verdict::kGo}, Condition{{{"If-Match", "\"abc\""}}, Verdict::kGo},
        Condition{{{"If-Match", "abc"}}, Verdict::kGo},
        Condition{{{"If-Match", "\"x\", \"abc\""}}, Verdict::kGo},
        Condition{{{"If-Match", "*"}}, Verdict::kGo},
        Condition{{{"If-Match", "\"x\""}}, Verdict::kPreconditionFailed},
        Condition{{{"If-None-Match", "\"abc\""}}, Verdict::kNotModified},
        Condition{{{"If-None-Match", "W/\"abc\""}}, Verdict::kNotModified},
        Condition{{{"If-None-Match", "\"x\""}}, Verdict::kGo},
        Condition{{{"If-Modified-Since", kSame}}, Verdict::kNotModified},
        Condition{{{"If-Modified-Since", kBefore}}, Verdict::kGo},
        Condition{{{"If-Modified-Since", "nonsense"}}, Verdict::kGo},
        Condition{{{"If-Unmodified-Since", kSame}}, Verdict::kGo},
        Condition{{{"If-Unmodified-Since", kBefore}}, Verdict::kPreconditionFailed},
        // The ETag wins over the date.
        Condition{{{"If-Match", "\"abc\""}, {"If-Unmodified-Since", kBefore}}, Verdict::kGo},
        Condition{{{"If-None-Match", "\"x\""}, {"If-Modified-Since", kSame}}, Verdict::kGo}));

TEST(JudgeCopySource, LooksAtItsOwnHeadersOnly) {
  http::Headers headers;
  headers.set("If-Match", "\"x\"");
  EXPECT_EQ(judge(headers, "x-amz-copy-source-", kObject), Verdict::kGo);
  headers.set("x-amz-copy-source-if-match", "\"x\"");
  EXPECT_EQ(judge(headers, "x-amz-copy-source-", kObject), Verdict::kPreconditionFailed);
}

struct Ranged {
  const char* header;
  std::uint64_t size;
  std::optional<std::pair<std::uint64_t, std::uint64_t>> range;
};

class ParseRange : public testing::TestWithParam<Ranged> {};

TEST_P(ParseRange, GivesOneRangeOrTheWhole) {
  const auto range = parse_range(GetParam().header, GetParam().size);
  ASSERT_TRUE(range);
  std::optional<std::pair<std::uint64_t, std::uint64_t>> found;
  if (const auto& given = *range) {
    found.emplace(given->first, given->last);
  }
  EXPECT_EQ(found, GetParam().range);
}

INSTANTIATE_TEST_SUITE_P(
    Headers, ParseRange,
    testing::Values(Ranged{"", 10, {}}, Ranged{"bytes=0-3", 10, {{0, 3}}},
                    Ranged{"bytes=5-", 10, {{5, 9}}}, Ranged{"bytes=-3", 10, {{7, 9}}},
                    Ranged{"bytes=-30", 10, {{0, 9}}}, Ranged{"bytes=2-99", 10, {{2, 9}}},
                    Ranged{"bytes=3-2", 10, {}}, Ranged{"bytes=a-b", 10, {}},
                    Ranged{"bytes=0-1,3-4", 10, {}}, Ranged{"lines=0-1", 10, {}},
                    Ranged{"bytes=-", 10, {}}, Ranged{"bytes=+1-2", 10, {}}));

TEST(MayBePartial, OfTheVeryVersionOnly) {
  s3::ObjectInfo info = kObject;
  info.last_modified = *parse_http_date("Tue, 01 Dec 2026 12:00:00 GMT") + Duration(300);
  const auto judged = [&](const char* value) {
    http::Headers headers;
    headers.set("If-Range", value);
    return may_be_partial(headers, info);
  };
  EXPECT_TRUE(may_be_partial({}, info));
  EXPECT_TRUE(judged("\"abc\""));
  EXPECT_TRUE(judged("Tue, 01 Dec 2026 12:00:00 GMT"));
  for (const char* other : {"\"other\"", "W/\"abc\"", "Tue, 01 Dec 2026 11:59:59 GMT",
                            "Tue, 01 Dec 2026 12:00:01 GMT", ""}) {
    EXPECT_FALSE(judged(other)) << other;
  }
}

TEST(ParseRange, HasNoByteBehindTheEnd) {
  EXPECT_EQ(parse_range("bytes=10-", 10).error().subject, "range");
  EXPECT_EQ(parse_range("bytes=0-0", 0).error().subject, "range");
  EXPECT_EQ(parse_range("bytes=-0", 10).error().subject, "range");
}

struct PartCase {
  std::vector<std::uint64_t> sizes;  // of the parts; one piece when empty
  std::uint64_t size;                // of the object
  int number;
  std::optional<std::pair<std::uint64_t, std::uint64_t>> range;
  const char* refused = "";
};

class RangeOfPart : public testing::TestWithParam<PartCase> {};

TEST_P(RangeOfPart, NamesItsFirstAndLastByte) {
  s3::ObjectInfo info{.key = "k", .size = GetParam().size, .etag = "e"};
  for (const std::uint64_t size : GetParam().sizes) {
    info.parts.push_back({.size = size});
  }
  const auto range = range_of_part(info, GetParam().number);
  EXPECT_EQ(range ? "" : range.error().subject, GetParam().refused);
  std::optional<std::pair<std::uint64_t, std::uint64_t>> found;
  if (const std::optional<s3::ByteRange> bytes = range ? *range : std::nullopt) {
    found.emplace(bytes->first, bytes->last);
  }
  EXPECT_EQ(found, GetParam().range);
}

INSTANTIATE_TEST_SUITE_P(
    Parts, RangeOfPart,
    testing::Values(PartCase{{5, 5, 2}, 12, 1, {{0, 4}}}, PartCase{{5, 5, 2}, 12, 3, {{10, 11}}},
                    PartCase{{5, 5, 2}, 12, 4, {}, "part-range"},
                    PartCase{{5, 0}, 5, 2, {}, "part-range"}, PartCase{{}, 7, 1, {{0, 6}}},
                    PartCase{{}, 7, 2, {}, "part-range"}, PartCase{{}, 0, 1, {}},
                    PartCase{{}, 0, 2, {}, "part-range"}));

}  // namespace
}  // namespace trainyard::store
