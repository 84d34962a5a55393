// SPDX-License-Identifier: Apache-2.0
#include "comm/rendezvous/interfaces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::comm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Interface kLoopback{.name = "lo", .address = "127.0.0.1", .prefix = 8, .is_loopback = true};
const Interface kLoopbackV6{.name = "lo", .address = "::1", .prefix = 128, .is_loopback = true};
const Interface kBridge{.name = "docker0", .address = "172.17.0.1", .prefix = 16};
const Interface kData{.name = "enP7s7", .address = "10.1.2.7", .prefix = 24};
const Interface kDataV6{.name = "enP7s7", .address = "fd00::7", .prefix = 64};
const Interface kLinkLocal{.name = "enP7s7", .address = "fe80::7", .prefix = 64};
const Interface kDown{.name = "ib0", .address = "10.9.0.7", .prefix = 24, .is_up = false};
const std::vector<Interface> kNode = {kLoopback, kLinkLocal, kBridge, kDataV6, kData, kDown};

TEST(ChooseAddresses, TakesWhatReachesOthersBestFirst) {
  EXPECT_THAT(*choose_addresses(kNode, "", true), ElementsAre("172.17.0.1", "10.1.2.7", "fd00::7"));
  EXPECT_EQ(choose_addresses({kLoopback, kLinkLocal}, "", true).error().code, Code::kNotFound);
}

TEST(ChooseAddresses, NeverAdvertisesLoopbackToOtherHosts) {
  EXPECT_EQ(choose_addresses({kLoopback}, "", true).error().code, Code::kNotFound);
  EXPECT_THAT(*choose_addresses({kLoopback}, "", false), ElementsAre("127.0.0.1"));
}

// aws-samples/aws-do-eks#69: also not when it is asked for.
TEST(ChooseAddresses, RefusesANamedLoopbackWhereOthersAreToReachIt) {
  for (const char* loopback : {"lo", "127.0.0.1", "127.0.0.0/8", "::1", "lo,127.0.0.1"}) {
    const auto refused = choose_addresses({kLoopback, kLoopbackV6, kData}, loopback, true);
    ASSERT_FALSE(refused) << loopback;
    EXPECT_EQ(refused.error().code, Code::kNotFound);
    EXPECT_THAT(refused.error().message, HasSubstr("by which a host reaches only itself"));
    EXPECT_THAT(refused.error().message, HasSubstr("enP7s7 10.1.2.7/24"));
  }
  EXPECT_THAT(*choose_addresses({kLoopback}, "lo", false), ElementsAre("127.0.0.1"));
}

TEST(ChooseAddresses, TakesWhatOthersReachOnALoopback) {
  const Interface routed{.name = "lo", .address = "10.255.0.7", .is_loopback = true};
  EXPECT_THAT(*choose_addresses({kLoopback, routed, kData}, "lo,en*", true),
              ElementsAre("10.255.0.7", "10.1.2.7"));
}

struct Case {
  const char* choice;
  std::vector<std::string> addresses;
};

TEST(ChooseAddresses, ReadsOneSyntax) {
  const std::vector<Case> cases = {
      {"docker0", {"172.17.0.1"}},
      {"en*", {"fe80::7%enP7s7", "fd00::7", "10.1.2.7"}},
      {"fe80::7", {"fe80::7%enP7s7"}},
      {"10.1.0.0/16", {"10.1.2.7"}},
      {"10.1.2.7", {"10.1.2.7"}},
      {"fd00::/8", {"fd00::7"}},
      {"10.1.2.7, docker0", {"10.1.2.7", "172.17.0.1"}},
      {"^docker0,fe80::/10", {"10.1.2.7", "fd00::7"}},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(*choose_addresses(kNode, one.choice, true), one.addresses) << one.choice;
  }
}

TEST(ChooseAddresses, ListsWhatThereIsWhenNothingMatches) {
  const auto none = choose_addresses(kNode, "eth0", true);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("enP7s7 10.1.2.7/24"));
  EXPECT_EQ(choose_addresses(kNode, "ib0", true).error().code, Code::kNotFound);
}

TEST(ChooseAddresses, RefusesWhatIsNoChoice) {
  for (const char* bad : {",", "eth0,", "10.0.0.0/33", "^", "a*b", "eth 0"}) {
    EXPECT_EQ(choose_addresses(kNode, bad, true).error().code, Code::kInvalidArgument) << bad;
  }
}

// pytorch/pytorch#64926: a bridge with the same address on every node is never how they meet.
TEST(OrderToTry, PutsTheBridgeThatEveryNodeHasLast) {
  const std::vector<std::string> everyones = {"172.17.0.1", "10.1.2.8", "172.17.0.1", "10.1.2.9"};
  EXPECT_THAT(order_to_try({"172.17.0.1", "192.168.5.8", "10.1.2.8"}, kNode, everyones),
              ElementsAre("10.1.2.8", "192.168.5.8", "172.17.0.1"));
}

TEST(OrderToTry, KnowsALinkByItsAddressesWithScope) {
  EXPECT_THAT(order_to_try({"192.168.5.8", "fe80::8%enP7s7", "fe80::7%enP7s7"}, kNode, {}),
              ElementsAre("fe80::8%enP7s7", "192.168.5.8", "fe80::7%enP7s7"));
}

TEST(ReadInterfaces, FindsTheLoopback) {
  const auto interfaces = read_interfaces();
  ASSERT_TRUE(interfaces);
  EXPECT_TRUE(std::ranges::any_of(*interfaces, &Interface::is_loopback));
}

}  // namespace
}  // namespace trainyard::comm
