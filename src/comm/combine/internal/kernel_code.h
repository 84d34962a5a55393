// SPDX-License-Identifier: Apache-2.0
// The kernels, written once over the vectors of vectors.h; each level_*.cc includes this and is
// compiled for its instruction set. Vectors of all operands are loaded and combined left to right,
// finished, and stored to all outs before the next ones, so an out may be an operand. What is left
// of a range goes through the same code in a padded vector: where a range is split changes no bit.
#pragma once

#include "comm/combine/internal/casts_code.h"
#include "comm/combine/internal/kernels.h"
#include "comm/combine/internal/reductions.h"
#include "comm/combine/internal/vectors.h"

namespace trainyard::comm {
namespace {

template <typename Element>
YARD_INLINE void finish(typename Element::Value& value, const Job& job) {
  using Number = typename Element::Number;
  if constexpr (std::is_floating_point_v<Number>) {
    for (std::size_t p = 0; p < Element::kParts; ++p) {
      value.part[p] = finished<Number>(value.part[p], static_cast<Number>(job.scale));
    }
  } else if (job.divisor != 1) {
    divide<Number>(reinterpret_cast<std::byte*>(&value), job.divisor);
  }
}

// The places of one step: fixed counts of operands and outs (0: those of the job) let the compiler
// keep the pointers in registers.
template <std::size_t kOperands, std::size_t kOuts>
struct Places {
  const std::byte* operands[kOperands];
  std::byte* outs[kOuts];

  explicit Places(const Job& job) {
    for (std::size_t k = 0; k < kOperands; ++k) {
      operands[k] = job.operands[k] + job.from;
    }
    for (std::size_t k = 0; k < kOuts; ++k) {
      outs[k] = job.outs[k] + job.to;
    }
  }
  static constexpr std::size_t operand_count() { return kOperands; }
  static constexpr std::size_t out_count() { return kOuts; }
  YARD_INLINE const std::byte* operand(std::size_t k) const { return operands[k]; }
  YARD_INLINE std::byte* out(std::size_t k) const { return outs[k]; }
};

template <>
struct Places<0, 0> {
  const Job& job;

  explicit Places(const Job& job_in) : job(job_in) {}
  YARD_INLINE std::size_t operand_count() const { return job.operand_count; }
  YARD_INLINE std::size_t out_count() const { return job.out_count; }
  YARD_INLINE const std::byte* operand(std::size_t k) const { return job.operands[k] + job.from; }
  YARD_INLINE std::byte* out(std::size_t k) const { return job.outs[k] + job.to; }
};

// `kVectors` whole vectors from byte `at` on.
template <typename Element, typename Op, std::size_t kVectors, typename P>
YARD_INLINE void step(const Job& job, const P& places, std::size_t at) {
  typename Element::Value sum[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) {
    sum[v] = Element::load(places.operand(0) + at + v * kVectorBytes);
  }
  for (std::size_t k = 1; k < places.operand_count(); ++k) {
    const std::byte* from = places.operand(k) + at;
    for (std::size_t v = 0; v < kVectors; ++v) {
      const typename Element::Value next = Element::load(from + v * kVectorBytes);
      for (std::size_t p = 0; p < Element::kParts; ++p) {
        sum[v].part[p] = Op::template apply<typename Element::Number>(sum[v].part[p], next.part[p]);
      }
    }
  }
  for (std::size_t v = 0; v < kVectors; ++v) {
    finish<Element>(sum[v], job);
  }
  for (std::size_t k = 0; k < places.out_count(); ++k) {
    std::byte* to = places.out(k) + at;
    for (std::size_t v = 0; v < kVectors; ++v) {
      Element::store(to + v * kVectorBytes, sum[v]);
    }
  }
}

// The last `bytes` < kVectorBytes, by way of padded copies.
template <typename Element, typename Op>
__attribute__((noinline)) void rest(const Job& job, std::size_t at, std::size_t bytes) {
  std::byte padded[kVectorBytes] = {};
  std::memcpy(padded, job.operands[0] + job.from + at, bytes);
  typename Element::Value sum = Element::load(padded);
  for (std::size_t k = 1; k < job.operand_count; ++k) {
    std::memcpy(padded, job.operands[k] + job.from + at, bytes);
    const typename Element::Value next = Element::load(padded);
    for (std::size_t p = 0; p < Element::kParts; ++p) {
      sum.part[p] = Op::template apply<typename Element::Number>(sum.part[p], next.part[p]);
    }
  }
  finish<Element>(sum, job);
  Element::store(padded, sum);
  for (std::size_t k = 0; k < job.out_count; ++k) {
    std::memcpy(job.outs[k] + job.to + at, padded, bytes);
  }
}

template <typename Element, typename Op, std::size_t kOperands, std::size_t kOuts>
void walk(const Job& job) {
  constexpr std::size_t kVectors = 4 / Element::kParts;
  constexpr std::size_t kStride = kVectors * kVectorBytes;
  const Places<kOperands, kOuts> places(job);
  std::size_t at = 0;
  for (; at + kStride <= job.bytes; at += kStride) {
    step<Element, Op, kVectors>(job, places, at);
  }
  for (; at + kVectorBytes <= job.bytes; at += kVectorBytes) {
    step<Element, Op, 1>(job, places, at);
  }
  if (at < job.bytes) {
    rest<Element, Op>(job, at, job.bytes - at);
  }
}

template <typename Element, typename Op>
void reduce(const Job& job) {
  walk<Element, Op, 0, 0>(job);
}

// With the shapes that rings, trees and pairs have.
template <typename Element, typename Op>
void reduce_fast(const Job& job) {
  if (job.operand_count == 2 && job.out_count == 1) {
    walk<Element, Op, 2, 1>(job);
  } else if (job.operand_count == 2 && job.out_count == 2) {
    walk<Element, Op, 2, 2>(job);
  } else {
    walk<Element, Op, 0, 0>(job);
  }
}

constexpr std::size_t kLine = 64;

std::size_t bytes_to_line(const std::byte* at) {
  return (kLine - reinterpret_cast<std::uintptr_t>(at) % kLine) % kLine;
}

// Lines that are not whole are written through the cache.
void stream(std::byte* out, const std::byte* in, std::size_t bytes) {
  std::size_t at = std::min(bytes_to_line(out), bytes);
  std::memcpy(out, in, at);
  for (; at + kLine <= bytes; at += kLine) {
    for (std::size_t v = 0; v < kLine; v += kVectorBytes) {
      stream_vector(out + at + v, load_vector<std::uint8_t>(in + at + v));
    }
  }
  std::memcpy(out + at, in + at, bytes - at);
}

// memcpy() of so many bytes is one instruction for strings (rep movsb), which is half as fast where
// `out` does not begin with a line, as memory of malloc() never does. Loads come before stores, or
// the compiler would put memcpy() here again.
void copy_lines(std::byte* out, const std::byte* in, std::size_t bytes) {
  std::size_t at = std::min(bytes_to_line(out), bytes);
  std::memcpy(out, in, at);
  for (; at + 4 * kVectorBytes <= bytes; at += 4 * kVectorBytes) {
    const auto a = load_vector<std::uint8_t>(in + at);
    const auto b = load_vector<std::uint8_t>(in + at + kVectorBytes);
    const auto c = load_vector<std::uint8_t>(in + at + 2 * kVectorBytes);
    const auto d = load_vector<std::uint8_t>(in + at + 3 * kVectorBytes);
    store_vector<std::uint8_t>(out + at, a);
    store_vector<std::uint8_t>(out + at + kVectorBytes, b);
    store_vector<std::uint8_t>(out + at + 2 * kVectorBytes, c);
    store_vector<std::uint8_t>(out + at + 3 * kVectorBytes, d);
  }
  std::memcpy(out + at, in + at, bytes - at);
}

constexpr std::size_t at(ReduceOp op) {
  return static_cast<std::size_t>(op);
}
constexpr std::size_t at(DType dtype) {
  return static_cast<std::size_t>(dtype);
}

template <typename Element>
constexpr KernelsOfDType real_kernels() {
  KernelsOfDType all = {};
  all[at(ReduceOp::kNone)] = reduce<Element, Sum>;
  all[at(ReduceOp::kSum)] = all[at(ReduceOp::kAverage)] = reduce_fast<Element, Sum>;
  all[at(ReduceOp::kProduct)] = reduce<Element, Product>;
  all[at(ReduceOp::kMin)] = reduce<Element, Min>;
  all[at(ReduceOp::kMax)] = reduce<Element, Max>;
  return all;
}

template <typename Element>
constexpr KernelsOfDType whole_kernels() {
  KernelsOfDType all = {};
  all[at(ReduceOp::kNone)] = reduce<Element, Sum>;
  all[at(ReduceOp::kSum)] = all[at(ReduceOp::kAverage)] = reduce<Element, Sum>;
  all[at(ReduceOp::kProduct)] = reduce<Element, Product>;
  all[at(ReduceOp::kMin)] = reduce<Element, Min>;
  all[at(ReduceOp::kMax)] = reduce<Element, Max>;
  all[at(ReduceOp::kBitAnd)] = reduce<Whole<std::uint8_t>, BitAnd>;
  all[at(ReduceOp::kBitOr)] = reduce<Whole<std::uint8_t>, BitOr>;
  all[at(ReduceOp::kBitXor)] = reduce<Whole<std::uint8_t>, BitXor>;
  return all;
}

// Bytes of 0 and 1: a sum is "any", a product is "all".
constexpr KernelsOfDType bool_kernels() {
  KernelsOfDType all = {};
  all[at(ReduceOp::kSum)] = all[at(ReduceOp::kMax)] = reduce<Whole<std::uint8_t>, BitOr>;
  all[at(ReduceOp::kProduct)] = all[at(ReduceOp::kMin)] = reduce<Whole<std::uint8_t>, BitAnd>;
  all[at(ReduceOp::kBitAnd)] = reduce<Whole<std::uint8_t>, BitAnd>;
  all[at(ReduceOp::kBitOr)] = reduce<Whole<std::uint8_t>, BitOr>;
  all[at(ReduceOp::kBitXor)] = reduce<Whole<std::uint8_t>, BitXor>;
  return all;
}

constexpr Kernels make_kernels() {
  Kernels kernels;
  kernels.reduce[at(DType::kF32)] = real_kernels<Real<float>>();
  kernels.reduce[at(DType::kF64)] = real_kernels<Real<double>>();
  kernels.reduce[at(DType::kBF16)] = real_kernels<BFloat16>();
  kernels.reduce[at(DType::kF16)] = real_kernels<Float16>();
  kernels.reduce[at(DType::kI8)] = whole_kernels<Whole<std::int8_t>>();
  kernels.reduce[at(DType::kI16)] = whole_kernels<Whole<std::int16_t>>();
  kernels.reduce[at(DType::kI32)] = whole_kernels<Whole<std::int32_t>>();
  kernels.reduce[at(DType::kI64)] = whole_kernels<Whole<std::int64_t>>();
  kernels.reduce[at(DType::kU8)] = whole_kernels<Whole<std::uint8_t>>();
  kernels.reduce[at(DType::kBool)] = bool_kernels();
  kernels.half = {.narrow = narrow<Float16>, .widen = widen<Float16>};
  kernels.brain = {.narrow = narrow<BFloat16>, .widen = widen<BFloat16>};
  kernels.stream = stream;
  kernels.copy = copy_lines;
  return kernels;
}

}  // namespace
}  // namespace trainyard::comm
