// SPDX-License-Identifier: Apache-2.0
#include "comm/rendezvous/resource_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::comm {
namespace {

using ::testing::HasSubstr;

// As SageMaker's developer guide shows it.
constexpr const char* kConfig = R"({
  "current_host": "algo-2",
  "current_instance_type": "ml.m5.xlarge",
  "hosts": ["algo-1", "algo-2", "algo-3"],
  "instance_groups": [{"instance_group_name": "all", "instance_type": "ml.m5.xlarge",
                       "hosts": ["algo-1", "algo-2", "algo-3"]}],
  "network_interface_name": "eth1"
})";

TEST(PlaceInJob, CountsRanksHostByHost) {
  const auto alone = place_in_job(kConfig, 0, 1);
  ASSERT_TRUE(alone) << alone.error().message;
  EXPECT_EQ(*alone, (JobPlace{.rank = 1, .size = 3, .leader = "algo-1", .interface = "eth1"}));
  const auto last_of_four = place_in_job(kConfig, 3, 4);
  ASSERT_TRUE(last_of_four) << last_of_four.error().message;
  EXPECT_EQ(last_of_four->rank, 7);
  EXPECT_EQ(last_of_four->size, 12);
}

TEST(PlaceInJob, KeepsTheOrderOfTheHosts) {
  const auto place =
      place_in_job(R"({"current_host": "algo-2", "hosts": ["algo-1", "algo-10", "algo-2"]})", 0, 1);
  ASSERT_TRUE(place) << place.error().message;
  EXPECT_EQ(*place, (JobPlace{.rank = 2, .size = 3, .leader = "algo-1", .interface = ""}));
}

struct Wrong {
  const char* config;
  std::int32_t local_rank;
  std::int32_t local_size;
  const char* says;
};

class WrongConfigs : public ::testing::TestWithParam<Wrong> {};

TEST_P(WrongConfigs, AreRefusedByName) {
  const auto place = place_in_job(GetParam().config, GetParam().local_rank, GetParam().local_size);
  ASSERT_FALSE(place);
  EXPECT_EQ(place.error().code, Code::kInvalidArgument);
  EXPECT_THAT(place.error().message, HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    , WrongConfigs,
    ::testing::Values(
        Wrong{"{", 0, 1, "resourceconfig.json: "}, Wrong{"[]", 0, 1, "no object"},
        Wrong{R"({"current_host": "a"})", 0, 1, "\"hosts\" is no list"},
        Wrong{R"({"current_host": "a", "hosts": []})", 0, 1, "\"hosts\" is no list"},
        Wrong{R"({"current_host": "a", "hosts": ["a", 1]})", 0, 1, "\"hosts\" is no list"},
        Wrong{R"({"current_host": "a", "hosts": ["a", "a"]})", 0, 1, "\"a\" comes twice"},
        Wrong{R"({"current_host": "b", "hosts": ["a"]})", 0, 1, "\"b\", which is not among"},
        Wrong{R"({"hosts": ["a"]})", 0, 1, "\"\", which is not among"},
        Wrong{R"({"current_host": "b", "hosts": ["a", "b"]})", 0, 2'000'000'000, "too many"},
        Wrong{kConfig, 2, 2, "local rank 2 of 2"}, Wrong{kConfig, -1, 2, "local rank -1 of 2"},
        Wrong{kConfig, 0, 0, "local rank 0 of 0"}));

}  // namespace
}  // namespace trainyard::comm
