// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/fabric/introduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/rendezvous/memory_store.h"

namespace trainyard::comm {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

using Addresses = std::vector<std::string>;

Hosts two_hosts_of(std::int32_t ranks) {
  Hosts hosts{.of_rank = {}, .ranks = {{}, {}}};
  for (std::int32_t rank = 0; rank < 2 * ranks; ++rank) {
    hosts.of_rank.push_back(rank / ranks);
    hosts.ranks[static_cast<std::size_t>(rank / ranks)].push_back(rank);
  }
  return hosts;
}

TEST(AddressToBind, IsTheFirstThatNoOtherHostHas) {
  const std::vector<DataAddress> all = {{.port = 1, .addresses = {"172.17.0.1", "10.0.0.1"}},
                                        {.port = 1, .addresses = {"172.17.0.1", "10.0.0.2"}}};
  EXPECT_EQ(address_to_bind(all, two_hosts_of(1), 0), "10.0.0.1");
  EXPECT_EQ(address_to_bind(all, two_hosts_of(1), 1), "10.0.0.2");
}

TEST(AddressToBind, MayBeSharedByTheRanksOfOneHost) {
  const Addresses first = {"172.17.0.1", "10.0.0.1"};
  const Addresses second = {"172.17.0.1", "10.0.0.2"};
  const std::vector<DataAddress> all = {{.port = 1, .addresses = first},
                                        {.port = 2, .addresses = first},
                                        {.port = 1, .addresses = second},
                                        {.port = 2, .addresses = second}};
  EXPECT_EQ(address_to_bind(all, two_hosts_of(2), 1), "10.0.0.1");
  EXPECT_EQ(address_to_bind(all, two_hosts_of(2), 2), "10.0.0.2");
}

TEST(AddressToBind, IsTheBestWhereAllHostsAreOne) {
  const std::vector<DataAddress> all = {{.port = 1, .addresses = {"10.0.0.1", "fe80::1"}},
                                        {.port = 2, .addresses = {"10.0.0.1", "fe80::1"}}};
  EXPECT_EQ(address_to_bind(all, two_hosts_of(1), 1), "10.0.0.1");
  EXPECT_EQ(address_to_bind({{.port = 1, .addresses = {}}}, {.of_rank = {0}, .ranks = {{0}}}, 0),
            "");
}

TEST(CheckReceives, WantsRoomForTheRanksOfOtherHosts) {
  EXPECT_TRUE(check_receives(40, two_hosts_of(10), 3));
  const auto checked = check_receives(40, two_hosts_of(11), 3);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, Code::kExhausted);
  EXPECT_THAT(checked.error().message,
              HasSubstr("holds 40 receives, and 11 ranks of other hosts need 4 each"));
}

std::vector<Member> members() {
  return {{.rank = 0, .size = 2, .host_name = "a", .pid = 10},
          {.rank = 1, .size = 2, .host_name = "b", .pid = 11}};
}

Introduction introduction(std::int32_t rank, Result<Addresses> own,
                          const std::string& provider = "shm") {
  return {.world = "w", .rank = rank, .provider = provider, .own = std::move(own)};
}

// What rank 0 gets when rank 1 has come so already.
Result<std::vector<Addresses>> meet_with(const Introduction& other) {
  MemoryStore store;
  static_cast<void>(introduce(other, members(), store, milliseconds(0)));
  return introduce(introduction(0, Addresses{"x", "y"}), members(), store, milliseconds(100));
}

TEST(Introduce, GivesTheAddressesOfAll) {
  const std::string odd("\0\xff", 2);
  const auto all = meet_with(introduction(1, Addresses{odd, ""}));
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(*all, (std::vector<Addresses>{{"x", "y"}, {odd, ""}}));
}

TEST(Introduce, NamesARankWithAnotherProvider) {
  const auto all = meet_with(introduction(1, Addresses{"x", "y"}, "efa"));
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().code, Code::kConflict);
  EXPECT_THAT(all.error().message, HasSubstr("rank 1 (pid 11 on b) cannot use libfabric with this "
                                             "one: it speaks fabric 2 over efa"));
}

TEST(Introduce, SaysWhyARankCannotFollow) {
  const auto all = meet_with(introduction(1, Error{Code::kNotFound, "it is not installed"}));
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().code, Code::kUnavailable);
  EXPECT_THAT(all.error().message, HasSubstr("rank 1 (pid 11 on b)"));
  EXPECT_THAT(all.error().message, HasSubstr("it is not installed"));
}

TEST(Introduce, WaitsForARankOnlySoLong) {
  MemoryStore store;
  const auto all =
      introduce(introduction(0, Addresses{"x", "y"}), members(), store, milliseconds(10));
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().code, Code::kDeadline);
}

}  // namespace
}  // namespace trainyard::comm
