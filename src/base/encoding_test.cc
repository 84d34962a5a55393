// SPDX-License-Identifier: Apache-2.0
#include "base/encoding.h"

#include <span>

#include <gtest/gtest.h>

#include "base/random.h"

namespace trainyard {
namespace {

using namespace std::string_view_literals;

TEST(Hex, GoesBothWays) {
  EXPECT_EQ(to_hex("\x00\x7f\xff"sv), "007fff");
  EXPECT_EQ(*from_hex("007FfF"), "\x00\x7f\xff"sv);
  EXPECT_FALSE(from_hex("0").has_value());
  EXPECT_FALSE(from_hex("0g").has_value());
}

// RFC 4648 §10.
TEST(Base64, AgreesWithTheStandardsVectors) {
  EXPECT_EQ(to_base64(""), "");
  EXPECT_EQ(to_base64("f"), "Zg==");
  EXPECT_EQ(to_base64("fo"), "Zm8=");
  EXPECT_EQ(to_base64("foo"), "Zm9v");
  EXPECT_EQ(to_base64("foob"), "Zm9vYg==");
  EXPECT_EQ(to_base64("fooba"), "Zm9vYmE=");
  EXPECT_EQ(*from_base64("Zm9vYmE="), "fooba");
  EXPECT_EQ(*from_base64(""), "");
}

class BadBase64 : public testing::TestWithParam<const char*> {};

TEST_P(BadBase64, IsRefused) {
  EXPECT_EQ(from_base64(GetParam()).error().code, Code::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Texts, BadBase64,
                         testing::Values("Zg", "Zg=", "Zg==\n", "Z===", "====", "Zg==Zg==", "Zm9-",
                                         "Zm9_", "Zh==", "Zm9=", "Z g=", "Zg=a"));

TEST(Encodings, GiveRandomBytesBack) {
  SeededRandom random(1);
  for (std::size_t size = 0; size < 300; ++size) {
    std::string bytes(size, '\0');
    random.fill(std::as_writable_bytes(std::span(bytes)));
    EXPECT_EQ(*from_hex(to_hex(bytes)), bytes);
    EXPECT_EQ(*from_base64(to_base64(bytes)), bytes);
    EXPECT_EQ(*uri_decode(uri_encode(bytes)), bytes);
    EXPECT_EQ(*form_decode(uri_encode(bytes)), bytes);
    EXPECT_EQ(is_utf8(bytes) && bytes.find('\0') >= size, to_valid_utf8(bytes) == bytes);
    EXPECT_TRUE(is_utf8(to_valid_utf8(bytes)));
  }
}

TEST(UriEncode, KeepsOnlyTheUnreservedCharacters) {
  EXPECT_EQ(uri_encode("AZaz09-._~"), "AZaz09-._~");
  EXPECT_EQ(uri_encode("a b/c+d%\xc3\xa4*"), "a%20b%2Fc%2Bd%25%C3%A4%2A");
  EXPECT_EQ(uri_encode("a b/c", true), "a%20b/c");
}

TEST(UriDecode, LeavesPlusAndFormDecodeDoesNot) {
  EXPECT_EQ(*uri_decode("a+b%20c%2f"), "a+b c/");
  EXPECT_EQ(*form_decode("a+b%2Bc"), "a b+c");
}

TEST(UriDecode, RefusesBrokenEscapes) {
  EXPECT_FALSE(uri_decode("%").has_value());
  EXPECT_FALSE(uri_decode("a%4").has_value());
  EXPECT_FALSE(uri_decode("%4g").has_value());
  EXPECT_FALSE(uri_decode("%%41").has_value());
  EXPECT_EQ(*uri_decode("%41"), "A");
}

struct Utf8Case {
  std::string_view bytes;
  std::string_view repaired;  // equal to bytes when valid
};

class Utf8 : public testing::TestWithParam<Utf8Case> {};

TEST_P(Utf8, IsCheckedAndRepaired) {
  const auto& [bytes, repaired] = GetParam();
  EXPECT_EQ(is_utf8(bytes), bytes == repaired);
  EXPECT_EQ(to_valid_utf8(bytes), repaired);
}

#define R "\xef\xbf\xbd"
INSTANTIATE_TEST_SUITE_P(
    Edges, Utf8,
    testing::Values(Utf8Case{"", ""}, Utf8Case{"plain", "plain"},
                    Utf8Case{"\xc2\x80\xdf\xbf", "\xc2\x80\xdf\xbf"},
                    Utf8Case{"\xe0\xa0\x80\xef\xbf\xbf", "\xe0\xa0\x80\xef\xbf\xbf"},
                    Utf8Case{"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf",
                             "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"},
                    Utf8Case{"\xed\x9f\xbf\xee\x80\x80", "\xed\x9f\xbf\xee\x80\x80"},
                    Utf8Case{"\x80", R},
                    Utf8Case{"a\xff"
                             "b",
                             "a" R "b"},                                   // not a lead byte
                    Utf8Case{"\xc0\xaf", R R}, Utf8Case{"\xc1\xbf", R R},  // overlong
                    Utf8Case{"\xe0\x9f\xbf", R R R},                       // overlong
                    Utf8Case{"\xf0\x8f\xbf\xbf", R R R R},                 // overlong
                    Utf8Case{"\xed\xa0\x80", R R R},                       // surrogate
                    Utf8Case{"\xf4\x90\x80\x80", R R R R},                 // above U+10FFFF
                    Utf8Case{"\xf5\x80\x80\x80", R R R R},                 // above U+10FFFF
                    Utf8Case{"\xe6\x97", R}, Utf8Case{"\xf0\x9f\x98", R},  // cut off
                    Utf8Case{"\xe6\x97"
                             "a",
                             R "a"},
                    Utf8Case{"\xc3\xc3\xa4", R "\xc3\xa4"}));
#undef R

TEST(ToValidUtf8, ReplacesZeroBytes) {
  EXPECT_EQ(to_valid_utf8("a\0b"sv),
            "a\xef\xbf\xbd"
            "b");
}

TEST(Utf8Prefix, CutsBetweenCharacters) {
  constexpr std::string_view kText = "a\xc3\xa4\xe6\x97\xa5\xf0\x9f\x98\x80z";
  EXPECT_EQ(utf8_length(kText), 5u);
  EXPECT_EQ(utf8_prefix(kText, 0), "");
  EXPECT_EQ(utf8_prefix(kText, 2), "a\xc3\xa4");
  EXPECT_EQ(utf8_prefix(kText, 4), "a\xc3\xa4\xe6\x97\xa5\xf0\x9f\x98\x80");
  EXPECT_EQ(utf8_prefix(kText, 99), kText);
}

}  // namespace
}  // namespace trainyard
