// SPDX-License-Identifier: Apache-2.0
#include "comm/types.h"

#include <gtest/gtest.h>

namespace trainyard::comm {
namespace {

TEST(Signature, SaysWhatTheOperationIs) {
  const Signature signature{.kind = OpKind::kReduce,
                            .dtype = DType::kBF16,
                            .reduce = ReduceOp::kSum,
                            .root = 3,
                            .count = 12};
  EXPECT_EQ(to_string(signature), "reduce of 12 bfloat16 (sum), root 3");
  EXPECT_EQ(to_string(Signature{}), "barrier");
}

TEST(ReduceOp, BitwiseOnesAreNotForReals) {
  EXPECT_FALSE(is_supported(ReduceOp::kBitXor, DType::kF16));
  EXPECT_TRUE(is_supported(ReduceOp::kBitXor, DType::kBool));
  EXPECT_FALSE(is_supported(ReduceOp::kAverage, DType::kBool));
}

}  // namespace
}  // namespace trainyard::comm
