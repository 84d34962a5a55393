// SPDX-License-Identifier: Apache-2.0
// The face between combine.cc, which splits and dispatches, and the kernels, which are the same
// code (kernel_code.h) compiled once for each instruction set. All levels give the same bits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/combine/combine.h"
#include "comm/types.h"

namespace trainyard::comm {

// What one kernel does: operands from byte `from` on are combined into outs from byte `to` on.
struct Job {
  std::byte* const* outs = nullptr;
  const std::byte* const* operands = nullptr;
  std::size_t out_count = 0;
  std::size_t operand_count = 0;  // at least 1
  std::size_t bytes = 0;          // whole elements
  std::size_t from = 0;
  std::size_t to = 0;
  double scale = 1.0;
  std::int64_t divisor = 1;
};

using Kernel = void (*)(const Job&);

inline constexpr std::size_t kDTypes = 10;
inline constexpr std::size_t kReduceOps = 9;
using KernelsOfDType = std::array<Kernel, kReduceOps>;  // nullptr where a reduction has none

// fp32 to 16 bits, after a multiplication by `scale`, and back; `count` elements.
struct Casts {
  void (*narrow)(const float* values, float scale, std::byte* bytes, std::size_t count) = nullptr;
  void (*widen)(const std::byte* bytes, float* values, std::size_t count) = nullptr;
};

struct Kernels {
  std::array<KernelsOfDType, kDTypes> reduce = {};
  Casts half;   // fp16
  Casts brain;  // bf16
  // A copy by stores that go around the caches, without the fence.
  void (*stream)(std::byte* out, const std::byte* in, std::size_t bytes) = nullptr;
  // One through the caches, for more than a few lines.
  void (*copy)(std::byte* out, const std::byte* in, std::size_t bytes) = nullptr;
};

enum class Level : std::uint8_t { kPlain, kAvx2, kAvx512 };

// Those that this processor runs, best last.
std::span<const Level> levels();
const Kernels& kernels_of(Level level);
const Kernels& best_kernels();

const Kernels& plain_kernels();
#if defined(__x86_64__)
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();
#endif

// combine() and copy() by the kernels of one level: for tests and measurements.
void combine_by(const Kernels& kernels, const Combine& how, std::span<std::byte* const> outs,
                std::span<const std::byte* const> operands, std::size_t count);
void copy_by(const Kernels& kernels, std::byte* out, const std::byte* in, std::size_t bytes,
             Store store);

}  // namespace trainyard::comm
