// SPDX-License-Identifier: Apache-2.0
#include "formats/python_regex.h"

#include <chrono>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard {
namespace {

using Outcome = PythonRegex::Outcome;
using testing::HasSubstr;

// What the first group holds; "none" without a match, "unset" when the group took no part.
std::string group_of(std::string_view expression, std::string_view text) {
  Result<PythonRegex> regex = PythonRegex::compile(expression);
  if (!regex) {
    return "error: " + regex.error().message;
  }
  const PythonRegex::Match match = regex->search(text);
  if (match.outcome != Outcome::kFound) {
    return match.outcome == Outcome::kLimit ? "limit" : "none";
  }
  return match.has_group ? std::string(match.group) : "unset";
}

struct Case {
  const char* name;
  const char* expression;
  const char* text;
  const char* group;  // as Python 3.11's re.search(expression, text)[1] says
};

class PythonRegexSearch : public testing::TestWithParam<Case> {};

TEST_P(PythonRegexSearch, FindsWhatPythonFinds) {
  EXPECT_EQ(group_of(GetParam().expression, GetParam().text), GetParam().group);
}

INSTANTIATE_TEST_SUITE_P(
    Expressions, PythonRegexSearch,
    testing::Values(Case{"Unanchored", "loss=([0-9.]+)", "step 3 loss=0.25 lr", "0.25"},
                    Case{"Lazy", "loss=(.*?);", "loss=1.5; acc=2;", "1.5"},
                    Case{"FirstMatchOfTheLine", "a=(\\d)", "a=1 a=2", "1"},
                    Case{"NamedGroup", "(?P<name>loss): (?P<value>\\S+)", "loss: 3", "loss"},
                    Case{"NamedBackreference", "(?P<q>['\"])x(?P=q)", "'x\" \"x\"", "\""},
                    Case{"GroupThatTookNoPart", "a|(b)", "a", "unset"},
                    Case{"NonCapturing", "(?:train|val)_loss=(\\d+)", "val_loss=7", "7"},
                    Case{"Lookbehind", "(?<=acc=)(\\d+)", "acc=9", "9"},
                    Case{"Conditional", "(<)?\\w+(?(1)>|$)", "<a>", "<"},
                    Case{"UnicodeDigits", "n=(\\d+)", "n=\u0661\u0662", "\u0661\u0662"},
                    Case{"UnicodeWords", "(\\w+)=", "Verlust\u00e4=1", "Verlust\u00e4"},
                    Case{"AsciiFlag", "(?a)(\\w+)=", "\u00e4bc=1", "bc"},
                    Case{"IgnoreCaseFlag", "(?i)LOSS=(\\d)", "Loss=4", "4"},
                    Case{"UnicodeFlagMeansNothing", "(?u)x(\\d)", "x1", "1"},
                    Case{"ScopedFlags", "(?iu:LOSS)=(\\d)", "loss=4", "4"},
                    Case{"VerboseComments", "(?x) loss = # the [ loss\n (\\d+)", "loss=12", "12"},
                    Case{"CommentGroup", "a(?#[)(\\d)", "a1", "1"},
                    Case{"NoPosixClasses", "([[:alpha:]+)", "xal]", "al"},
                    Case{"BracketInAClass", "([[]x)", "[x", "[x"},
                    Case{"ClosingBracketFirst", "([]x]+)", "a]x]", "]x]"},
                    Case{"NegatedClosingBracket", "([^]]+)", "]]ab]", "ab"},
                    Case{"UpToN", "(a{,2})b", "aaab", "aa"},
                    Case{"AnyNumber", "x(a{,})b", "xaaab", "aaa"},
                    Case{"BraceAsText", "({,x)", "{,x", "{,x"},
                    Case{"VerticalTabIsOneCharacter", "(a\\vb)",
                         "a\x0b"
                         "b",
                         "a\x0b"
                         "b"},
                    Case{"CodePoints", "(\\u00e4\\U0001F600)", "\u00e4\U0001F600",
                         "\u00e4\U0001F600"},
                    Case{"VeryEnd", "(a)\\Z", "ba", "a"}, Case{"Possessive", "(a++)b", "aab", "aa"},
                    Case{"EscapedBracket", "\\[(\\d+)/", "[12/50]", "12"},
                    Case{"QuotesOfADict", "'loss': ([0-9\\.]+)", "{'loss': 2.5, 'lr': 1}", "2.5"}),
    [](const testing::TestParamInfo<Case>& tested) { return tested.param.name; });

struct BadCase {
  const char* name;
  const char* expression;
  const char* message;
};

class BadPythonRegex : public testing::TestWithParam<BadCase> {};

TEST_P(BadPythonRegex, IsRefusedWithReasonAndPlace) {
  const Result<PythonRegex> regex = PythonRegex::compile(GetParam().expression);
  ASSERT_FALSE(regex.has_value());
  EXPECT_EQ(regex.error().code, Code::kInvalidArgument);
  EXPECT_THAT(regex.error().message, HasSubstr(GetParam().message));
  EXPECT_THAT(regex.error().message, HasSubstr(" at offset "));
}

INSTANTIATE_TEST_SUITE_P(
    Expressions, BadPythonRegex,
    testing::Values(BadCase{"OpenGroup", "loss=(", "missing closing parenthesis"},
                    BadCase{"OpenClass", "[a", "missing terminating ]"},
                    BadCase{"NothingToRepeat", "*a", "quantifier does not follow"},
                    BadCase{"Verb", "(*UTF)(a)", "nothing to repeat at offset 0"},
                    BadCase{"Quoting", "a\\Qb", "bad escape \\Q at offset 1"},
                    BadCase{"ShortCodePoint", "\\u12", "incomplete escape \\u"},
                    BadCase{"LocaleFlag", "(?L)a", "unrecognized character after (?"},
                    BadCase{"LastBackslash", "a\\", "\\ at end of pattern"}),
    [](const testing::TestParamInfo<BadCase>& tested) { return tested.param.name; });

TEST(PythonRegex, CountsGroups) {
  EXPECT_EQ(PythonRegex::compile("(a)(?:b)(?P<c>c)")->group_count(), 2);
  EXPECT_EQ(PythonRegex::compile("loss")->group_count(), 0);
}

TEST(PythonRegex, EndsACatastrophicSearch) {
  Result<PythonRegex> regex = PythonRegex::compile("(a+)+$");
  const std::string text = std::string(5'000, 'a') + "b";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(regex->search(text).outcome, Outcome::kLimit);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(200));
  EXPECT_EQ(group_of("(a+)+$", "baaa"), "aaa");  // it still works where it can
}

TEST(PythonRegex, SearchesALongLineToItsEnd) {
  const std::string text = std::string(250'000, 'x') + " loss=1.5";
  EXPECT_EQ(group_of(".*?loss=(\\S+)", text), "1.5");
  EXPECT_EQ(group_of("(?:x)*? loss=(\\S+)", text.substr(240'000)), "1.5");
}

}  // namespace
}  // namespace trainyard
