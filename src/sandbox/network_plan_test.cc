// SPDX-License-Identifier: Apache-2.0
#include "sandbox/network_plan.h"

#include <gmock/gmock.h>

namespace trainyard::sandbox {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

Ipv4Prefix prefix(std::string_view text) {
  Result<Ipv4Prefix> parsed = parse_prefix(text);
  EXPECT_TRUE(parsed) << text;
  return std::move(parsed).value_or({});
}

NetworkPlan plan(int instances, bool isolated) {
  auto made = plan_network({.tag = "1a2b3c",
                            .subnet = prefix("10.77.3.0/24"),
                            .instances = instances,
                            .isolated = isolated});
  EXPECT_TRUE(made);
  return std::move(made).value_or({});
}

TEST(ParsePrefix, ClearsTheBitsPastItsLength) {
  EXPECT_EQ(to_string(prefix("10.77.3.9/24")), "10.77.3.0/24");
  EXPECT_EQ(to_string(prefix("192.0.2.7")), "192.0.2.7/32");
  EXPECT_EQ(to_string(prefix("1.2.3.4/0")), "0.0.0.0/0");
}

TEST(ParsePrefix, RefusesWhatIsNoNetwork) {
  for (const char* text : {"", "default", "10.77.0/16", "10.77.0.256", "10.0.0.0/33", "fd00::/8"}) {
    EXPECT_FALSE(parse_prefix(text)) << text;
  }
}

TEST(ChooseSubnet, TakesTheFirstThatNothingTouches) {
  const auto subnet =
      choose_subnet({prefix("10.77.0.0/16")}, {prefix("10.77.0.0/24"), prefix("10.77.1.9"),
                                               prefix("10.77.2.128/25"), prefix("192.168.0.0/16")});
  ASSERT_TRUE(subnet);
  EXPECT_EQ(to_string(*subnet), "10.77.3.0/24");
}

TEST(ChooseSubnet, GoesToTheNextPoolWhenTheHostHasAllOfTheFirst) {
  const auto subnet =
      choose_subnet({prefix("10.77.0.0/16"), prefix("172.29.0.0/16")}, {prefix("10.0.0.0/8")});
  ASSERT_TRUE(subnet);
  EXPECT_EQ(to_string(*subnet), "172.29.0.0/24");
}

TEST(ChooseSubnet, IgnoresDefaultRoutesHoweverTheyAreWritten) {
  const auto subnet =
      choose_subnet({prefix("10.77.0.0/16")}, {prefix("0.0.0.0/0"), prefix("0.0.0.0/1")});
  ASSERT_TRUE(subnet);
  EXPECT_EQ(to_string(*subnet), "10.77.0.0/24");
}

TEST(ChooseSubnet, SaysWhatIsInTheWay) {
  const auto subnet = choose_subnet({prefix("10.77.0.0/16")}, {prefix("10.0.0.0/8")});
  ASSERT_FALSE(subnet);
  EXPECT_EQ(subnet.error().code, Code::kExhausted);
  EXPECT_THAT(subnet.error().message, HasSubstr("10.77.0.0/16"));
  EXPECT_THAT(subnet.error().message, HasSubstr("10.0.0.0/8"));
}

TEST(PlanNetwork, GivesEachInstanceItsRankAsAddress) {
  const NetworkPlan made = plan(2, false);
  EXPECT_EQ(made.bridge, "ty1a2b3c");
  EXPECT_EQ(made.gateway, "10.77.3.254");
  ASSERT_THAT(made.instances, SizeIs(2));
  EXPECT_EQ(made.instances[0].address, "10.77.3.1");
  EXPECT_EQ(made.instances[1].address, "10.77.3.2");
  EXPECT_EQ(made.instances[1].network_namespace, "trainyard-1a2b3c-2");
}

TEST(PlanNetwork, KeepsInterfaceNamesWithinTheKernelsLimit) {
  const NetworkPlan made = plan(kMaxInstances, false);
  for (const InstanceLink& link : made.instances) {
    EXPECT_LE(link.veth.size(), 15U);
  }
  EXPECT_NE(made.instances.back().address, made.gateway);
}

TEST(PlanNetwork, LetsOnlyAnOpenGangOut) {
  EXPECT_THAT(plan(1, false).open_filter, HasSubstr("outbound { 10.77.3.0/24 }"));
  EXPECT_THAT(plan(1, true).open_filter, Not(HasSubstr("outbound { 10.77.3.0/24 }")));
  EXPECT_THAT(plan(1, true).open_filter, HasSubstr("isolated { \"ty1a2b3c\" }"));
}

TEST(PlanNetwork, IsMadeAgainFromItsRequest) {
  const NetworkPlan first = plan(3, true);
  const auto second = plan_network(first.request);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->remove, first.remove);
  EXPECT_EQ(second->instances, first.instances);
}

TEST(PlanNetwork, RefusesWhatDoesNotFit) {
  const Ipv4Prefix subnet = prefix("10.77.0.0/24");
  EXPECT_FALSE(plan_network({.tag = "1a2b3c", .subnet = subnet, .instances = 0}));
  EXPECT_FALSE(plan_network({.tag = "1a2b3c", .subnet = subnet, .instances = kMaxInstances + 1}));
  EXPECT_FALSE(plan_network({.tag = "x; rm", .subnet = subnet}));
  EXPECT_FALSE(plan_network({.tag = "1a2b3c", .subnet = prefix("10.77.0.0/16")}));
}

TEST(IsGangBridge, KnowsOursFromOthers) {
  EXPECT_TRUE(is_gang_bridge("ty1a2b3c"));
  EXPECT_FALSE(is_gang_bridge("ty1a2b3cv1"));
  EXPECT_FALSE(is_gang_bridge("tyrant"));
  EXPECT_FALSE(is_gang_bridge("docker0"));
}

}  // namespace
}  // namespace trainyard::sandbox
