// SPDX-License-Identifier: Apache-2.0
#include "sandbox/loopback_plan.h"

#include <gmock/gmock.h>

namespace trainyard::sandbox {
namespace {

using ::testing::HasSubstr;

NetworkRequest request_of(int block, int instances, bool isolated = false) {
  return {.tag = "1a2b3c",
          .subnet = subnet_of_block(block),
          .instances = instances,
          .isolated = isolated};
}

TEST(LoopbackPlan, GivesEachInstanceAnAddressAndMakesNothing) {
  const Result<NetworkPlan> plan = plan_loopback(request_of(7, 2));
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->gateway, "127.77.7.254");
  ASSERT_EQ(plan->instances.size(), 2U);
  EXPECT_EQ(plan->instances[0].address, "127.77.7.1");
  EXPECT_EQ(plan->instances[1].address, "127.77.7.2");
  EXPECT_EQ(plan->instances[1].network_namespace, "");
  EXPECT_EQ(plan->create + plan->remove + plan->open_filter + plan->instances[0].create, "");
}

TEST(LoopbackPlan, GivesNoTwoGangsTheSamePort) {
  for (int block = 0; block + 1 < kBlocks; ++block) {
    EXPECT_LT(ports_of(subnet_of_block(block)).last, ports_of(subnet_of_block(block + 1)).first);
  }
  EXPECT_LT(ports_of(subnet_of_block(kBlocks - 1)).last, 32'768);
}

TEST(LoopbackPlan, NamesThePortsOfABlock) {
  const PortRange ports = ports_of(subnet_of_block(7));
  EXPECT_EQ(to_string(ports), "12700-12799");
  EXPECT_EQ(ports.master(), 12'700);
  EXPECT_EQ(ports.gateway(), 12'703);
  EXPECT_EQ(ports.for_program(), "12704-12799");
  EXPECT_EQ(*parse_ports("12700-12799"), ports);
}

TEST(LoopbackPlan, TakesNoOddRangeOfPorts) {
  for (const char* text : {"", "12700", "12700-", "-12799", "12700-12701", "9-70000", "0-99"}) {
    EXPECT_FALSE(parse_ports(text)) << text;
  }
}

TEST(LoopbackPlan, IsolatesOneInstanceOnly) {
  EXPECT_TRUE(plan_loopback(request_of(0, 1, true)));
  const auto refused = plan_loopback(request_of(0, 2, true));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("root"));
}

TEST(LoopbackPlan, RefusesSubnetsOfOthers) {
  for (const char* subnet : {"10.77.3.0/24", "127.0.1.0/24", "127.77.200.0/24"}) {
    NetworkRequest request = request_of(0, 1);
    request.subnet = *parse_prefix(subnet);
    EXPECT_FALSE(plan_loopback(request)) << subnet;
  }
}

}  // namespace
}  // namespace trainyard::sandbox
