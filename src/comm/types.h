// SPDX-License-Identifier: Apache-2.0
// The words of the collectives library: element types, reductions, the kinds of operation, and the
// signature by which ranks check that they run the same one. Values only; everything else in this
// module speaks in them.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace trainyard::comm {

enum class DType : std::uint8_t { kF32, kF64, kBF16, kF16, kI8, kI16, kI32, kI64, kU8, kBool };

constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
    case DType::kF16:
    case DType::kI16:
      return 2;
    case DType::kI8:
    case DType::kU8:
    case DType::kBool:
      return 1;
  }
  return 1;
}

// kAverage is the sum divided by the world, once, at the end; integers truncate towards zero. The
// bitwise ones are for integers and bool.
enum class ReduceOp : std::uint8_t {
  kNone,
  kSum,
  kProduct,
  kMin,
  kMax,
  kAverage,
  kBitAnd,
  kBitOr,
  kBitXor
};

// How the ranks of a world get at each other's buffers, stronger ones last.
enum class Reach : std::uint8_t {
  kMessages,  // not at all: what others need is sent to them
  kCopied,    // the kernel reads the memory of any of them for any other
  kMapped     // all map the memory that the buffers lie in
};

enum class OpKind : std::uint8_t {
  kBarrier,
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kReduce,
  kGather,
  kScatter,
  kAllToAll,
  kSend,
  kReceive
};

std::string_view name_of(DType dtype);  // "float32", as PyTorch and NumPy say it
std::string_view name_of(ReduceOp op);  // "sum"
std::string_view name_of(OpKind kind);  // "all_reduce"
bool is_supported(ReduceOp op, DType dtype);

// What all ranks of one operation must agree on. `count` is in elements: of the whole buffer for
// all-reduce, broadcast, reduce and barrier (0), of all ranks together for the others; of an uneven
// operation, where ranks know parts only, it is a hash of what all of them must know, or 0. `root`
// is -1 where there is none.
struct Signature {
  OpKind kind = OpKind::kBarrier;
  DType dtype = DType::kU8;
  ReduceOp reduce = ReduceOp::kNone;
  std::uint8_t flags = 0;  // 1: uneven
  std::int32_t root = -1;
  std::uint64_t count = 0;

  auto operator<=>(const Signature&) const = default;
};
static_assert(sizeof(Signature) == 16);

// "all_reduce of 1048576 float32 (sum)", for errors and the flight recorder.
std::string to_string(const Signature& signature);

}  // namespace trainyard::comm
