// SPDX-License-Identifier: Apache-2.0
#include "instance/launch/hyperparameters.h"

#include <gtest/gtest.h>

namespace trainyard::instance {
namespace {

using Arguments = std::vector<std::string>;

struct Case {
  std::string name;
  std::string raw;       // as in the request
  Arguments argument;    // after the flag
  std::string variable;  // SM_HP_*
};

class HyperparameterTable : public testing::TestWithParam<Case> {};

TEST_P(HyperparameterTable, ReachesArgumentsAndEnvironmentExactly) {
  const Hyperparameters all = decode_hyperparameters({{"key", GetParam().raw}});
  Arguments expected = {"--key"};
  expected.insert(expected.end(), GetParam().argument.begin(), GetParam().argument.end());
  EXPECT_EQ(command_line(all), expected);
  EXPECT_EQ(environment_text(all[0]), GetParam().variable);
}

const std::string kLong(2500, 'x');

// cases.md C: what users have tripped over.
INSTANTIATE_TEST_SUITE_P(
    Cases, HyperparameterTable,
    testing::Values(
        Case{"Blank", "a b", {"a b"}, "a b"}, Case{"Empty", "", {}, ""},
        Case{"QuotedEmpty", R"("")", {}, ""}, Case{"Number", "10", {"10"}, "10"},
        Case{"SpellingOfNumbers", "0.10", {"0.10"}, "0.10"},
        Case{"Exponent", "1e-4", {"1e-4"}, "1e-4"},
        Case{"HugeInteger",
             "123456789012345678901234567890",
             {"123456789012345678901234567890"},
             "123456789012345678901234567890"},
        Case{"OutOfRange", "1e999", {"1e999"}, "1e999"}, Case{"Negative", "-1", {"-1"}, "-1"},
        Case{"LooksLikeAFlag", "--x", {"--x"}, "--x"},
        Case{"JsonQuoted", R"("train.py")", {"train.py"}, "train.py"},
        Case{"Colon", "reg:squarederror", {"reg:squarederror"}, "reg:squarederror"},
        Case{"QuotedColon", R"("reg:squarederror")", {"reg:squarederror"}, "reg:squarederror"},
        Case{"True", "true", {"True"}, "true"}, Case{"Null", "null", {}, ""},
        Case{"List", "[1, 2, 3]", {"[1, 2, 3]"}, "[1,2,3]"},
        Case{"ListOfText", R"(["a", "it's"])", {R"(['a', "it's"])"}, R"(["a","it's"])"},
        Case{
            "Object", R"({"a":[1,{"b":null}]})", {"a=[1, {'b': None}]"}, R"({"a":[1,{"b":null}]})"},
        Case{"Dollar", "$HOME", {"$HOME"}, "$HOME"},
        Case{"CommandSubstitution", "$(touch /tmp/x)", {"$(touch /tmp/x)"}, "$(touch /tmp/x)"},
        Case{"Backticks", "`id`", {"`id`"}, "`id`"},
        Case{"Quotes", R"(a'b"c)", {R"(a'b"c)"}, R"(a'b"c)"},
        Case{"LineBreak", "a\nb", {"a\nb"}, "a\nb"},
        Case{"Japanese", "日本語", {"日本語"}, "日本語"}, Case{"Backslash", "\\", {"\\"}, "\\"},
        Case{"Star", "*", {"*"}, "*"}, Case{"Percent", "%s", {"%s"}, "%s"},
        Case{"Long", kLong, {kLong}, kLong}, Case{"NotJson", "[1, 2", {"[1, 2"}, "[1, 2"},
        Case{"LeadingZero", "007", {"007"}, "007"}),
    [](const auto& test) { return test.param.name; });

TEST(CommandLine, IsSortedByKeyAndUsesOneDashForOneLetter) {
  const Hyperparameters all =
      decode_hyperparameters({{"b", "2"}, {"a.b", "1"}, {"a-b", "x"}, {"A_b", "y"}});
  EXPECT_EQ(command_line(all), (Arguments{"--A_b", "y", "--a-b", "x", "--a.b", "1", "-b", "2"}));
}

TEST(Hyperparameters, KeepThePlatformsFromTheScript) {
  const Hyperparameters all = decode_hyperparameters(
      {{"sagemaker_program", R"("train.py")"}, {"epochs", "3"}, {"sagemaker_x", "true"}});
  EXPECT_EQ(command_line(users(all)), (Arguments{"--epochs", "3"}));
  EXPECT_EQ(find_text(all, "sagemaker_program"), "train.py");
  EXPECT_TRUE(find_flag(all, "sagemaker_x"));
  EXPECT_FALSE(find_flag(all, "sagemaker_y"));
}

TEST(AsJsonObject, KeepsTypesAndSpelling) {
  const Hyperparameters all = decode_hyperparameters({{"list", "[1, 2, 3]"},
                                                      {"lr", "0.10"},
                                                      {"none", "null"},
                                                      {"on", "true"},
                                                      {"text", "日\"本"},
                                                      {"big", "12345678901234567890123"}});
  EXPECT_EQ(as_json_object(all),
            R"({"big":12345678901234567890123,"list":[1,2,3],"lr":0.10,"none":null,"on":true,)"
            R"("text":"\u65e5\"\u672c"})");
}

}  // namespace
}  // namespace trainyard::instance
