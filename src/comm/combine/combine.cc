// SPDX-License-Identifier: Apache-2.0
#include "comm/combine/combine.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/check.h"
#include "comm/combine/internal/kernels.h"

namespace trainyard::comm {
namespace {

constexpr std::array kLevels = {Level::kPlain, Level::kAvx2, Level::kAvx512};

std::size_t count_levels() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
      !__builtin_cpu_supports("f16c")) {
    return 1;
  }
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return has_avx512 ? 3 : 2;
#else
  return 1;
#endif
}

// Stores around the caches are weakly ordered: what follows must not be seen before them.
void fence() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

constexpr std::size_t kShort = 4 << 10;  // memcpy() is made for it

// Into a block that stays in the first-level cache, and from there to every out, whatever the
// alignment of each is. The first block ends where a line of the first out does.
void combine_streamed(const Kernels& kernels, Kernel kernel, const Job& whole) {
  constexpr std::size_t kLine = 64;
  constexpr std::size_t kBlock = 4096;
  alignas(kLine) std::byte block[kBlock];
  std::byte* const outs[] = {block};
  Job job = whole;
  job.outs = outs;
  job.out_count = 1;
  const std::size_t off_line = reinterpret_cast<std::uintptr_t>(whole.outs[0]) % 8 == 0
                                   ? reinterpret_cast<std::uintptr_t>(whole.outs[0]) % kLine
                                   : 0;
  job.bytes = std::min(kBlock - off_line, whole.bytes);
  while (job.from < whole.bytes) {
    kernel(job);
    for (std::size_t k = 0; k < whole.out_count; ++k) {
      kernels.stream(whole.outs[k] + job.from, block, job.bytes);
    }
    job.from += job.bytes;
    job.bytes = std::min(kBlock, whole.bytes - job.from);
  }
  fence();
}

}  // namespace

std::span<const Level> levels() {
  static const std::size_t kCount = count_levels();
  return std::span(kLevels).first(kCount);
}

const Kernels& kernels_of(Level level) {
#if defined(__x86_64__)
  switch (level) {
    case Level::kAvx512:
      return avx512_kernels();
    case Level::kAvx2:
      return avx2_kernels();
    case Level::kPlain:
      break;
  }
#else
  static_cast<void>(level);
#endif
  return plain_kernels();
}

const Kernels& best_kernels() {
  static const Kernels* const kBest = &kernels_of(levels().back());
  return *kBest;
}

void copy_by(const Kernels& kernels, std::byte* out, const std::byte* in, std::size_t bytes,
             Store store) {
  if (bytes == 0 || out == in) {
    return;
  }
  if (store == Store::kCached && bytes < kShort) {
    std::memcpy(out, in, bytes);
  } else if (store == Store::kCached) {
    kernels.copy(out, in, bytes);
  } else {
    kernels.stream(out, in, bytes);
    fence();
  }
}

void combine_by(const Kernels& kernels, const Combine& how, std::span<std::byte* const> outs,
                std::span<const std::byte* const> operands, std::size_t count) {
  YARD_CHECK(!operands.empty(), "nothing to combine");
  YARD_CHECK(how.divisor >= 1, "a divisor of " + std::to_string(how.divisor));
  const Job job{.outs = outs.data(),
                .operands = operands.data(),
                .out_count = outs.size(),
                .operand_count = operands.size(),
                .bytes = count * size_of(how.dtype),
                .scale = how.scale,
                .divisor = how.divisor};
  if (job.bytes == 0 || outs.empty()) {
    return;
  }
  if (operands.size() == 1 && how.scale == 1.0 && how.divisor == 1) {
    for (std::byte* out : outs) {
      copy_by(kernels, out, operands[0], job.bytes, how.store);
    }
    return;
  }
  const Kernel kernel =
      kernels.reduce[static_cast<std::size_t>(how.dtype)][static_cast<std::size_t>(how.op)];
  YARD_CHECK(kernel != nullptr, std::string(name_of(how.op)) + " of " +
                                    std::string(name_of(how.dtype)) + " is not supported");
  if (how.store == Store::kCached) {
    kernel(job);
  } else {
    combine_streamed(kernels, kernel, job);
  }
}

void combine(const Combine& how, std::span<std::byte* const> outs,
             std::span<const std::byte* const> operands, std::size_t count) {
  combine_by(best_kernels(), how, outs, operands, count);
}

void copy(std::byte* out, const std::byte* in, std::size_t bytes, Store store) {
  copy_by(best_kernels(), out, in, bytes, store);
}

}  // namespace trainyard::comm
