// SPDX-License-Identifier: Apache-2.0
#include "base/home.h"

#include <map>

#include <gtest/gtest.h>

namespace trainyard {
namespace {

Environment environment(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) {
    const auto found = values.find(name);
    return found == values.end() ? std::string() : found->second;
  };
}

TEST(HomeDirectory, FollowsTheUser) {
  EXPECT_EQ(home_directory(environment({{"TRAINYARD_HOME", "/x"}}), true), "/x");
  EXPECT_EQ(home_directory(environment({}), true), "/var/lib/trainyard");
  EXPECT_EQ(home_directory(environment({{"HOME", "/home/u"}}), false),
            "/home/u/.local/share/trainyard");
  EXPECT_EQ(home_directory(environment({{"XDG_DATA_HOME", "/data"}}), false), "/data/trainyard");
}

TEST(EnvironmentVariable, IsEmptyWhenThereIsNone) {
  EXPECT_EQ(environment_variable("TRAINYARD_NO_SUCH_VARIABLE"), "");
  EXPECT_NE(environment_variable("PATH"), "");
}

}  // namespace
}  // namespace trainyard
