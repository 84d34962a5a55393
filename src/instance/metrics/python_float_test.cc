// SPDX-License-Identifier: Apache-2.0
#include "instance/metrics/python_float.h"

#include <cmath>
#include <limits>
#include <string>

#include <gtest/gtest.h>

namespace trainyard::instance {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Case {
  const char* text;
  double value;
};

class PythonFloat : public testing::TestWithParam<Case> {};

TEST_P(PythonFloat, ReadsWhatFloatReads) {
  EXPECT_EQ(python_float(GetParam().text), GetParam().value) << GetParam().text;
}

INSTANTIATE_TEST_SUITE_P(
    Texts, PythonFloat,
    testing::Values(Case{"1", 1}, Case{"-1.5", -1.5}, Case{"+.5", 0.5}, Case{"5.", 5},
                    Case{"1e3", 1000}, Case{"1E+3", 1000}, Case{"2.5e-3", 0.0025},
                    Case{" \t7\r\n", 7}, Case{"1_000.000_1", 1000.0001}, Case{"1e1_0", 1e10},
                    Case{"007", 7}, Case{"inf", kInfinity}, Case{"-Inf", -kInfinity},
                    Case{"+INFINITY", kInfinity}, Case{"1e999", kInfinity},
                    Case{"-1e999", -kInfinity}, Case{"1e-999", 0}, Case{"0e999999999999", 0},
                    Case{"1e99999999999999999999", kInfinity}, Case{"1e-99999999999999999999", 0},
                    Case{"0.1", 0.1}, Case{"4.9406564584124654e-324", 4.9406564584124654e-324},
                    Case{"1.7976931348623157e308", 1.7976931348623157e308}));

TEST(PythonFloat, KnowsNotANumber) {
  for (const char* text : {"nan", "NaN", "+nan", "-NAN"}) {
    EXPECT_TRUE(std::isnan(python_float(text).value_or(0))) << text;
  }
}

TEST(PythonFloat, TellsLargeFromSmallByItsDigits) {
  EXPECT_EQ(python_float(std::string(400, '9')), kInfinity);
  EXPECT_EQ(python_float("0." + std::string(400, '0') + "1"), 0.0);
  EXPECT_EQ(python_float("0." + std::string(400, '0') + "1e500"), 1e99);
}

TEST(PythonFloat, RefusesWhatFloatRefuses) {
  for (const char* text : {"",    " ",      ".",        "+",   "abc", "1a",   "1.2.3", "0x10",
                           "1e",  "1e+",    "e5",       "_1",  "1_",  "1__0", "1_.5",  "1._5",
                           "1,5", "nan(1)", "infinite", "- 1", "--1", "1 2",  "5%",    "n_an"}) {
    EXPECT_FALSE(python_float(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace trainyard::instance
