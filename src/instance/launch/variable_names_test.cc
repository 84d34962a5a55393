// SPDX-License-Identifier: Apache-2.0
#include "instance/launch/variable_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::instance {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

NamedVariables named(const Variables& values) {
  return name_variables("SM_HP_", "hyperparameter", values);
}

TEST(VariableNames, AreTheToolkitsAndOnesThatShellsCanRead) {
  const NamedVariables out = named({{"lr", "1"}, {"c-d", "2"}, {"with blank", "3"}, {"1a", "4"}});
  EXPECT_EQ(out.variables, (Variables{{"SM_HP_LR", "1"},
                                      {"SM_HP_C-D", "2"},
                                      {"SM_HP_C_D", "2"},
                                      {"SM_HP_WITH BLANK", "3"},
                                      {"SM_HP_WITH_BLANK", "3"},
                                      {"SM_HP_1A", "4"}}));
  EXPECT_THAT(out.notes, IsEmpty());
}

TEST(VariableNames, KeepOtherScripts) {
  EXPECT_EQ(named({{"日本", "1"}}).variables, (Variables{{"SM_HP_日本", "1"}}));
}

TEST(VariableNames, LeaveOutTheOneThatTwoKeysWouldShare) {
  const NamedVariables out = named({{"a-b", "1"}, {"a.b", "2"}});
  EXPECT_EQ(out.variables, (Variables{{"SM_HP_A-B", "1"}, {"SM_HP_A.B", "2"}}));
  EXPECT_THAT(out.notes,
              ElementsAre("hyperparameters 'a-b', 'a.b' share the variable SM_HP_A_B: it is not "
                          "set."));
}

TEST(VariableNames, YieldToTheKeyWhoseOwnNameItIs) {
  const NamedVariables out = named({{"A_b", "3"}, {"a-b", "1"}, {"a.b", "2"}});
  EXPECT_EQ(out.variables.at("SM_HP_A_B"), "3");
  EXPECT_THAT(out.notes, ElementsAre("hyperparameters 'A_b', 'a-b', 'a.b' share the variable "
                                     "SM_HP_A_B: it holds that of 'A_b'."));
}

TEST(VariableNames, TakeTheLastOfKeysThatDifferInCase) {
  const NamedVariables out = named({{"LR", "1"}, {"lr", "2"}});
  EXPECT_EQ(out.variables, (Variables{{"SM_HP_LR", "2"}}));
  EXPECT_THAT(out.notes, ElementsAre("hyperparameters 'LR', 'lr' share the variable SM_HP_LR: it "
                                     "holds that of 'lr'."));
}

TEST(VariableNames, NeverHoldAnEqualsSign) {
  const NamedVariables out = named({{"a=b", "1"}});
  EXPECT_EQ(out.variables, (Variables{{"SM_HP_A_B", "1"}}));
  EXPECT_THAT(out.notes, ElementsAre("hyperparameter 'a=b' holds '=', which ends the name of a "
                                     "variable: it is SM_HP_A_B."));
  const NamedVariables shared = named({{"a-b", "1"}, {"a=b", "2"}});
  EXPECT_EQ(shared.variables, (Variables{{"SM_HP_A-B", "1"}}));
  EXPECT_EQ(shared.notes.size(), 2u);
}

TEST(VariableNames, PassOverAnEmptyKey) {
  const NamedVariables out = named({{"", "1"}});
  EXPECT_THAT(out.variables, IsEmpty());
  EXPECT_THAT(out.notes, ElementsAre("hyperparameter '' has no name: neither a variable nor an "
                                     "argument is made of it."));
}

}  // namespace
}  // namespace trainyard::instance
