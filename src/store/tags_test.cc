// SPDX-License-Identifier: Apache-2.0
#include "store/tags.h"

#include <gtest/gtest.h>

namespace trainyard::store {
namespace {

TEST(TagHeader, IsReadAsAForm) {
  EXPECT_EQ(*parse_tag_header("a=1&b+c=x%26y&empty=&bare", 10),
            (Tags{{"a", "1"}, {"b c", "x&y"}, {"empty", ""}, {"bare", ""}}));
  EXPECT_TRUE(parse_tag_header("", 10)->empty());
}

struct BadHeader {
  const char* name;
  std::string text;
};
void PrintTo(const BadHeader& bad, std::ostream* out) {
  *out << bad.name;
}

class BadTagHeader : public testing::TestWithParam<BadHeader> {};

TEST_P(BadTagHeader, IsRefused) {
  const auto tags = parse_tag_header(GetParam().text, 3);
  ASSERT_FALSE(tags);
  EXPECT_EQ(tags.error().subject, "tag");
}

INSTANTIATE_TEST_SUITE_P(Headers, BadTagHeader,
                         testing::Values(BadHeader{"twice", "a=1&a=2"}, BadHeader{"no key", "=1"},
                                         BadHeader{"escape", "a=%zz"},
                                         BadHeader{"not UTF-8", "a=%FF"},
                                         BadHeader{"long key", std::string(129, 'k') + "=1"},
                                         BadHeader{"long value", "a=" + std::string(257, 'v')}));

// S3 has no code of its own for it.
TEST(TagHeader, OfTooManyTagsIsABadRequest) {
  EXPECT_TRUE(parse_tag_header("a=1&b=2&c=3", 3));
  EXPECT_EQ(parse_tag_header("a=1&b=2&c=3&d=4", 3).error().subject, "bad-request");
}

TEST(TagDocument, ComesBackAsItWas) {
  const Tags tags{{"a<b", "\xC3\xA9 & more"}, {"c", ""}};
  EXPECT_EQ(*parse_tag_document(tag_document(tags), 10), tags);
  EXPECT_TRUE(parse_tag_document(tag_document({}), 10)->empty());
}

TEST(TagDocument, OfAnotherKindIsMalformed) {
  EXPECT_EQ(parse_tag_document("<Other/>", 10).error().subject, "xml");
  EXPECT_EQ(parse_tag_document("<Tagging/>", 10).error().subject, "xml");
  EXPECT_EQ(parse_tag_document("<Tagging", 10).error().subject, "xml");
}

}  // namespace
}  // namespace trainyard::store
