// SPDX-License-Identifier: Apache-2.0
#include "instance/launch/efa.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace trainyard::instance {
namespace {

TEST(EfaOf, KnowsTypesWithAnAdapterByFamilyAndSize) {
  EXPECT_EQ(efa_of("ml.p4d.24xlarge"), EfaKind::kRdma);
  EXPECT_EQ(efa_of("ml.p5.48xlarge"), EfaKind::kRdma);
  EXPECT_EQ(efa_of("ml.p5.4xlarge"), EfaKind::kRdma);
  EXPECT_EQ(efa_of("p5en.48xlarge"), EfaKind::kRdma);
  EXPECT_EQ(efa_of("ml.trn1.32xlarge"), EfaKind::kRdma);
  EXPECT_EQ(efa_of("ml.p3dn.24xlarge"), EfaKind::kPlain);
  EXPECT_EQ(efa_of("ml.g5.48xlarge"), EfaKind::kPlain);
  EXPECT_EQ(efa_of("ml.c5n.18xlarge"), EfaKind::kPlain);
}

TEST(EfaOf, SmallerSizesAndOtherFamiliesHaveNone) {
  for (const char* type : {"ml.g5.xlarge", "ml.g5.4xlarge", "ml.c5n.xlarge", "ml.m5.large",
                           "ml.p3.16xlarge", "ml.trn1.2xlarge", "ml.c5.xlarge", "ml.p5.", "ml.", "",
                           "p5", "ml.p4dx.24xlarge", "*.*", ".", "ml.p4d.*", "ml.p4d."}) {
    EXPECT_EQ(efa_of(type), EfaKind::kNone) << type;
  }
}

TEST(EfaVariables, SendNcclOverTheAdapter) {
  EXPECT_EQ(efa_variables("ml.g5.48xlarge"), (Variables{{"FI_PROVIDER", "efa"},
                                                        {"FI_EFA_FORK_SAFE", "1"},
                                                        {"FI_EFA_USE_HUGE_PAGE", "0"},
                                                        {"NCCL_PROTO", "simple"}}));
}

TEST(EfaVariables, UseRemoteReadsAndWritesWhereTheDeviceCan) {
  Variables wanted = efa_variables("ml.g5.48xlarge");
  wanted["FI_EFA_USE_DEVICE_RDMA"] = "1";
  EXPECT_EQ(efa_variables("ml.p4d.24xlarge"), wanted);
}

TEST(EfaVariables, AreNoneElsewhere) {
  EXPECT_TRUE(efa_variables("ml.m5.large").empty());
}

wire::Assignment on_p4d(nlohmann::json environment) {
  wire::Assignment assignment;
  assignment.request = {{"ResourceConfig", {{"InstanceType", "ml.p4d.24xlarge"}}},
                        {"Environment", std::move(environment)}};
  return assignment;
}

TEST(EfaVariables, AreDefaultsOfEachJobOnTheType) {
  const Variables given =
      container_environment(on_p4d(nlohmann::json::object()), {}).defaults_and_user;
  EXPECT_EQ(given.at("FI_PROVIDER"), "efa");
  EXPECT_EQ(given.at("FI_EFA_USE_DEVICE_RDMA"), "1");
}

TEST(EfaVariables, NeverOverrideTheUsers) {
  const Variables given =
      container_environment(on_p4d({{"FI_PROVIDER", "tcp"}, {"NCCL_PROTO", ""}}), {})
          .defaults_and_user;
  EXPECT_EQ(given.at("FI_PROVIDER"), "tcp");
  EXPECT_EQ(given.at("NCCL_PROTO"), "");
}

}  // namespace
}  // namespace trainyard::instance
