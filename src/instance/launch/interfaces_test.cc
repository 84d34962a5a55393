// SPDX-License-Identifier: Apache-2.0
#include "instance/launch/interfaces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::instance {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// cases.md 2 and 15: a bridge that every node has, and a data interface that is not called eth0.
const std::vector<NetworkInterface> kPresent = {{"lo", {"127.0.0.1", "::1"}},
                                                {"docker0", {"172.17.0.1"}},
                                                {"enP7s7", {"10.77.0.2", "fd00::2"}}};

wire::Assignment assignment(const std::string& interface) {
  return {.job_name = "job-1",
          .job_arn = {},
          .region = {},
          .account = {},
          .host = "algo-2",
          .hosts = {{"algo-1", "10.77.0.1"}, {"algo-2", "10.77.0.2"}},
          .network_interface = interface,
          .request = {},
          .python_environment = {},
          .server = {},
          .gpus = {},
          .log_stream = {}};
}

TEST(OwnInterface, IsTheOneWithTheInstancesAddress) {
  EXPECT_EQ(own_interface(assignment("eth0"), kPresent), "enP7s7");
  EXPECT_EQ(own_interface(assignment(""), kPresent), "enP7s7");
}

TEST(OwnInterface, IsWhatTheAssignmentSaysWhenNobodyKnowsBetter) {
  EXPECT_EQ(own_interface(assignment("eth0"), {}), "eth0");
}

struct Asked {
  std::string value;
  std::string result;
};
class SettleInterfaces : public testing::TestWithParam<Asked> {};

TEST_P(SettleInterfaces, GivesEveryLibraryAName) {
  for (const char* name : {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"}) {
    Variables variables = {{name, GetParam().value}};
    std::vector<std::string> notes;
    ASSERT_TRUE(settle_interfaces(variables, assignment("enP7s7"), kPresent, notes));
    EXPECT_EQ(variables.at(name), GetParam().result) << name;
    EXPECT_THAT(notes, IsEmpty());
  }
}

// cases.md 14: an address where a name belongs; empty is automatic.
INSTANTIATE_TEST_SUITE_P(Values, SettleInterfaces,
                         testing::Values(Asked{"", "enP7s7"}, Asked{" ", "enP7s7"},
                                         Asked{"10.77.0.2", "enP7s7"}, Asked{"fd00::2", "enP7s7"},
                                         Asked{"172.17.0.1", "docker0"},
                                         Asked{"docker0", "docker0"}, Asked{"enP", "enP"},
                                         Asked{"^docker0,lo", "^docker0,lo"},
                                         Asked{"=enP7s7", "=enP7s7"},
                                         Asked{"ens5,enP7s7", "ens5,enP7s7"}));

TEST(SettleInterfaces, ReplacesANameThatDoesNotExistHereAndSaysSo) {
  Variables variables = {{"GLOO_SOCKET_IFNAME", "eth0"}};
  std::vector<std::string> notes;
  ASSERT_TRUE(settle_interfaces(variables, assignment("enP7s7"), kPresent, notes));
  EXPECT_EQ(variables.at("GLOO_SOCKET_IFNAME"), "enP7s7");
  EXPECT_THAT(notes, ElementsAre("GLOO_SOCKET_IFNAME=eth0 names no interface of this instance: "
                                 "enP7s7 is used."));
}

TEST(SettleInterfaces, RefusesAnAddressThatNobodyHasWithAHint) {
  Variables variables = {{"NCCL_SOCKET_IFNAME", "10.0.0.5"}};
  std::vector<std::string> notes;
  const Result<void> settled = settle_interfaces(variables, assignment("enP7s7"), kPresent, notes);
  ASSERT_FALSE(settled);
  EXPECT_EQ(settled.error().code, Code::kInvalidArgument);
  EXPECT_THAT(settled.error().message, HasSubstr("NCCL_SOCKET_IFNAME is '10.0.0.5'"));
  EXPECT_THAT(settled.error().message, HasSubstr("enP7s7 (10.77.0.2, fd00::2)"));
}

}  // namespace
}  // namespace trainyard::instance
