// SPDX-License-Identifier: Apache-2.0
#include "control/run/command_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::control {
namespace {

using ::testing::ElementsAre;
using Kind = wire::Command::Kind;

std::vector<std::int64_t> numbers_of(const std::vector<wire::Command>& commands) {
  std::vector<std::int64_t> numbers;
  for (const wire::Command& command : commands) {
    numbers.push_back(command.seq);
  }
  return numbers;
}

class CommandList : public ::testing::Test {
 protected:
  void add(std::int64_t taken) { add_command(commands_, {.kind = Kind::kSignal}, taken); }
  std::vector<wire::Command> commands_;
};

TEST_F(CommandList, KeepsWhatIsNotTaken) {
  add(0);
  add(0);
  add(1);
  EXPECT_THAT(numbers_of(commands_), ElementsAre(2, 3));
  EXPECT_EQ(count_waiting(commands_, 1), 2u);
  EXPECT_EQ(count_waiting(commands_, 2), 1u);
  EXPECT_EQ(count_waiting(commands_, 3), 0u);
}

TEST_F(CommandList, GoesOnWithItsNumbersWhenAllAreTaken) {
  add(0);
  add(0);
  add(2);
  EXPECT_THAT(numbers_of(commands_), ElementsAre(3));
}

TEST_F(CommandList, KeepsWhatIsNewForAnInstanceThatClaimsToHaveItAlready) {
  add(0);
  add(1000);
  EXPECT_THAT(numbers_of(commands_), ElementsAre(2));
}

}  // namespace
}  // namespace trainyard::control
