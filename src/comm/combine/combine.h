// SPDX-License-Identifier: Apache-2.0
// Element-wise reductions in one pass over memory: any number of operands in, any number of copies
// of the result out. Kernels are compiled for several instruction sets and chosen once; the store
// instruction is the caller's choice, because the right one depends on how far the reading core is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/types.h"

namespace trainyard::comm {

enum class Store : std::uint8_t { kCached, kNonTemporal };

struct Combine {
  ReduceOp op = ReduceOp::kSum;  // kAverage as kSum; ignored when there is one operand
  DType dtype = DType::kF32;
  double scale = 1.0;        // the result is multiplied by it (kAverage: 1/world on the last step)
  std::int64_t divisor = 1;  // integers are divided by it instead
  Store store = Store::kCached;
};

// outs[j][i] = operands[0][i] op operands[1][i] op ..., left to right, `count` elements. An out may
// be the same memory as an operand, not overlap it otherwise. fp16 and bf16 accumulate in fp32 and
// are rounded once, to nearest even, when there are two operands or more or a scale; NaN stays NaN
// (the quiet one, without sign or payload), and min and max give NaN when any operand is (as
// PyTorch does). Integers wrap around; their division truncates towards zero; `divisor` is at
// least 1. Bool is bytes of 0 and 1: sum is "any", product "all". Alignment is that of the dtype or
// less. The bits of a result depend neither on the processor nor on how a range is split into
// calls.
void combine(const Combine& how, std::span<std::byte* const> outs,
             std::span<const std::byte* const> operands, std::size_t count);

// One operand, one result; a non-temporal copy leaves the caches alone and ends with a fence.
void copy(std::byte* out, const std::byte* in, std::size_t bytes, Store store);

}  // namespace trainyard::comm
