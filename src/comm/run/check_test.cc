// SPDX-License-Identifier: Apache-2.0
#include "comm/run/check.h"

#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace trainyard::comm {
namespace {

std::array<std::byte, 256> g_in;
std::array<std::byte, 256> g_out;

Operation of(OpKind kind, std::size_t in, std::size_t out) {
  Operation operation{.kind = kind,
                      .dtype = DType::kF32,
                      .input = std::span(g_in).first(in),
                      .output = std::span(g_out).first(out),
                      .counts = {},
                      .receive_counts = {},
                      .timeout = std::nullopt,
                      .algorithm = std::nullopt};
  const bool reduces =
      kind == OpKind::kAllReduce || kind == OpKind::kReduce || kind == OpKind::kReduceScatter;
  operation.reduce = reduces ? ReduceOp::kSum : ReduceOp::kNone;
  const bool is_rooted = kind == OpKind::kBroadcast || kind == OpKind::kReduce ||
                         kind == OpKind::kGather || kind == OpKind::kScatter ||
                         kind == OpKind::kSend || kind == OpKind::kReceive;
  operation.root = is_rooted ? 0 : -1;
  return operation;
}

std::string error_of(Operation operation, std::int32_t rank = 1, std::int32_t size = 4) {
  const auto checked = check(operation, rank, size);
  if (checked) {
    return "accepted";
  }
  EXPECT_EQ(checked.error().code, Code::kInvalidArgument);
  return checked.error().message;
}

std::uint64_t count_of(Operation operation, std::int32_t rank = 1, std::int32_t size = 4) {
  const auto checked = check(operation, rank, size);
  EXPECT_TRUE(checked) << checked.error().message;
  return checked ? checked->request.count : ~std::uint64_t{0};
}

TEST(Check, CountsTheWholeOperation) {
  EXPECT_EQ(count_of(of(OpKind::kBarrier, 0, 0)), 0U);
  EXPECT_EQ(count_of(of(OpKind::kAllReduce, 40, 40)), 10U);
  EXPECT_EQ(count_of(of(OpKind::kReduceScatter, 40, 12)), 10U);
  EXPECT_EQ(count_of(of(OpKind::kAllGather, 12, 40)), 10U);
  EXPECT_EQ(count_of(of(OpKind::kBroadcast, 0, 40)), 10U);
  EXPECT_EQ(count_of(of(OpKind::kReduce, 40, 0)), 10U);
  EXPECT_EQ(count_of(of(OpKind::kReduce, 40, 40), 0), 10U);
  EXPECT_EQ(count_of(of(OpKind::kGather, 8, 0)), 8U);
  EXPECT_EQ(count_of(of(OpKind::kScatter, 32, 8), 0), 8U);
  EXPECT_EQ(count_of(of(OpKind::kAllToAll, 32, 32)), 8U);
  EXPECT_EQ(count_of(of(OpKind::kSend, 32, 0)), 8U);
}

TEST(Check, GivesAllRanksOneSignature) {
  Operation root = of(OpKind::kBroadcast, 40, 0);
  Operation other = of(OpKind::kBroadcast, 0, 40);
  const Signature wanted{.kind = OpKind::kBroadcast, .dtype = DType::kF32, .root = 0, .count = 10};
  EXPECT_EQ(check(root, 0, 4)->signature, wanted);
  EXPECT_EQ(check(other, 1, 4)->signature, wanted);
}

TEST(Check, TakesAMissingInputInPlace) {
  Operation operation = of(OpKind::kAllReduce, 0, 40);
  ASSERT_TRUE(check(operation, 1, 4));
  EXPECT_EQ(operation.input.data(), operation.output.data());
  EXPECT_EQ(operation.input.size(), 40U);
}

TEST(Check, RefusesBytesThatAreNoWholeElements) {
  EXPECT_EQ(error_of(of(OpKind::kAllReduce, 42, 42)),
            "all_reduce: input has 42 bytes, which is no whole number of float32 (4 bytes each)");
}

TEST(Check, RefusesSizesThatDoNotFit) {
  EXPECT_EQ(error_of(of(OpKind::kAllReduce, 40, 44)),
            "all_reduce: input has 10 elements of float32, but should have 11");
  EXPECT_EQ(error_of(of(OpKind::kReduceScatter, 40, 8)),
            "reduce_scatter: output has 2 elements of float32, but should have 3");
  EXPECT_EQ(error_of(of(OpKind::kGather, 8, 16), 0),
            "gather: output has 4 elements of float32, but should have 8");
  EXPECT_EQ(error_of(of(OpKind::kGather, 8, 32)),
            "gather: only the root, rank 0, has an output; leave it empty elsewhere");
  EXPECT_EQ(error_of(of(OpKind::kAllToAll, 40, 40)),
            "all_to_all: 10 elements cannot be cut evenly for 4 ranks; give counts");
  EXPECT_EQ(error_of(of(OpKind::kSend, 8, 8)), "send: it has no output");
}

TEST(Check, RefusesRootsAndPeersThatAreNoRanks) {
  Operation operation = of(OpKind::kBroadcast, 0, 40);
  operation.root = 4;
  EXPECT_EQ(error_of(operation), "broadcast: root or peer 4 is no rank; they are 0 to 3");
}

TEST(Check, RefusesReductionsThatDoNotExist) {
  Operation operation = of(OpKind::kAllReduce, 40, 40);
  operation.reduce = ReduceOp::kBitXor;
  EXPECT_EQ(error_of(operation), "all_reduce: bitwise xor is not defined for float32");
  operation.reduce = ReduceOp::kNone;
  EXPECT_EQ(error_of(operation), "all_reduce: it needs a reduction, for example sum");
}

TEST(Check, WantsUnevenCountsOfAllRanks) {
  Operation operation = of(OpKind::kAllGather, 8, 40);
  operation.counts = {1, 2, 3};
  EXPECT_EQ(error_of(operation), "all_gather: counts has 3 entries, but there are 4 ranks");
  operation.counts = {1, 2, 3, 4};
  EXPECT_EQ(error_of(operation), "accepted");
  operation.counts = {2, 1, 3, 4};
  EXPECT_EQ(error_of(operation), "all_gather: input has 2 elements of float32, but should have 1");
  operation.counts = {1, ~std::uint64_t{0}, 3, 4};
  EXPECT_EQ(error_of(operation), "all_gather: counts sum to more elements than memory can hold");
}

TEST(Check, TellsUnevenCountsApart) {
  Operation one = of(OpKind::kAllGather, 8, 40);
  Operation other = one;
  one.counts = {1, 2, 3, 4};
  other.counts = {1, 2, 4, 3};
  EXPECT_NE(check(one, 1, 4)->signature, check(other, 1, 4)->signature);
}

TEST(Check, WantsBothCountsOfAnUnevenExchange) {
  Operation operation = of(OpKind::kAllToAll, 24, 16);
  operation.counts = {1, 2, 0, 3};
  operation.receive_counts = {0, 2, 1, 1};
  EXPECT_EQ(error_of(operation), "accepted");
  operation.receive_counts = {1, 1, 1, 1};
  EXPECT_EQ(error_of(operation),
            "all_to_all: this rank sends 2 elements to itself, but receives 1");
  operation.receive_counts = {};
  EXPECT_EQ(error_of(operation), "all_to_all: receive_counts has 0 entries, but there are 4 ranks");
}

TEST(Check, RefusesCountsWhereThereIsNoUnevenForm) {
  Operation operation = of(OpKind::kAllReduce, 40, 40);
  operation.counts = {1, 2, 3, 4};
  EXPECT_EQ(error_of(operation), "all_reduce: it has no uneven form; leave counts empty");
}

TEST(Check, KnowsInPlaceFromOverlap) {
  Operation operation = of(OpKind::kAllReduce, 40, 40);
  operation.output = std::span(g_in).first(40);
  EXPECT_EQ(error_of(operation), "accepted");
  operation.output = std::span(g_in).subspan(4, 40);
  EXPECT_EQ(error_of(operation),
            "all_reduce: input and output overlap without being in place; use separate buffers, or "
            "the same memory for the same elements");

  Operation scatter = of(OpKind::kReduceScatter, 32, 8);
  scatter.output = std::span(g_in).subspan(8, 8);  // the part of rank 1
  EXPECT_EQ(error_of(scatter), "accepted");
  scatter.output = std::span(g_in).subspan(0, 8);
  EXPECT_NE(error_of(scatter), "accepted");

  Operation gather = of(OpKind::kAllGather, 8, 32);
  gather.input = std::span(g_out).subspan(8, 8);
  EXPECT_EQ(error_of(gather), "accepted");

  Operation exchange = of(OpKind::kAllToAll, 32, 32);
  exchange.output = std::span(g_in).first(32);
  EXPECT_EQ(error_of(exchange), "all_to_all: input and output overlap; it has no form in place");
}

TEST(Check, RefusesUnknownNumbersInsteadOfUsingThem) {
  Operation operation = of(OpKind::kAllReduce, 40, 40);
  operation.dtype = static_cast<DType>(77);
  EXPECT_EQ(error_of(operation), "all_reduce: dtype 77 is unknown");
  operation = of(static_cast<OpKind>(99), 0, 0);
  EXPECT_EQ(error_of(operation), "unknown operation: kind 99 is unknown");
}

}  // namespace
}  // namespace trainyard::comm
