// SPDX-License-Identifier: Apache-2.0
// What combine() must give, one element at a time, in arithmetic that shares nothing with the
// kernels: 16-bit reals are taken apart and put together by value, in double precision. For tests.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "comm/combine/combine.h"

namespace trainyard::comm::reference {

using Bytes = std::vector<std::byte>;

template <typename T>
T element_of(const Bytes& bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

// A real of 1 sign, `kExponent` exponent and `kFraction` fraction bits (IEEE 754).
template <int kExponent, int kFraction>
struct Small {
  using Stored = std::uint16_t;
  using Number = float;
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr std::uint16_t kInfinity = ((1 << kExponent) - 1) << kFraction;
  static constexpr std::uint16_t kNan = kInfinity | 1 << (kFraction - 1);

  static float widen(std::uint16_t bits) {
    const int exponent = (bits & kInfinity) >> kFraction;
    const int fraction = bits & ((1 << kFraction) - 1);
    double magnitude = 0;
    if ((bits & kInfinity) == kInfinity) {
      magnitude = fraction != 0 ? std::nan("") : HUGE_VAL;
    } else {
      const int whole = exponent == 0 ? fraction : fraction | 1 << kFraction;
      magnitude = std::ldexp(whole, std::max(exponent, 1) - kBias - kFraction);
    }
    return static_cast<float>((bits & 0x8000) != 0 ? -magnitude : magnitude);
  }

  // To nearest, ties to even.
  static std::uint16_t narrow(float value) {
    if (std::isnan(value)) {
      return kNan;
    }
    const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const double magnitude = std::abs(static_cast<double>(value));
    if (std::isinf(magnitude) || magnitude == 0) {
      return sign | (magnitude == 0 ? std::uint16_t{0} : kInfinity);
    }
    const int exponent = std::max(std::ilogb(magnitude), 1 - kBias);
    // In units of the last place; one more than fits carries into the exponent, as it should.
    const auto whole =
        static_cast<int>(std::nearbyint(std::ldexp(magnitude, kFraction - exponent)));
    const int bits = ((exponent + kBias - 1) << kFraction) + whole;
    return sign | static_cast<std::uint16_t>(std::min<int>(bits, kInfinity));
  }
};
using Half = Small<5, 10>;
using Brain = Small<8, 7>;

template <typename T>
struct Plain {
  using Stored = T;
  using Number = T;
  static T widen(T value) { return value; }
  static T narrow(T value) { return value; }
};

template <typename T>
T combined(ReduceOp op, T a, T b) {
  const auto wrapped = [](auto value) { return static_cast<T>(value); };
  switch (op) {
    case ReduceOp::kProduct:
      if constexpr (std::is_integral_v<T>) {
        return wrapped(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
      } else {
        return a * b;
      }
    case ReduceOp::kMin:
      return a != a || a < b ? a : b;
    case ReduceOp::kMax:
      return a != a || a > b ? a : b;
    default:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    switch (op) {
      case ReduceOp::kBitAnd:
        return wrapped(a & b);
      case ReduceOp::kBitOr:
        return wrapped(a | b);
      case ReduceOp::kBitXor:
        return wrapped(a ^ b);
      default:
        return wrapped(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    }
  } else {
    return a + b;
  }
}

template <typename Format>
void combine_as(const Combine& how, const std::vector<Bytes>& operands, Bytes& out) {
  using Stored = typename Format::Stored;
  using Number = typename Format::Number;
  for (std::size_t i = 0; i < out.size() / sizeof(Stored); ++i) {
    Number sum = Format::widen(element_of<Stored>(operands[0], i));
    for (std::size_t k = 1; k < operands.size(); ++k) {
      sum = combined(how.op, sum, Format::widen(element_of<Stored>(operands[k], i)));
    }
    if constexpr (std::is_floating_point_v<Number>) {
      sum *= static_cast<Number>(how.scale);
      sum = std::isnan(sum) ? std::numeric_limits<Number>::quiet_NaN() : sum;
    } else {
      sum = static_cast<Number>(sum / how.divisor);
    }
    const Stored stored = Format::narrow(sum);
    std::memcpy(out.data() + i * sizeof(Stored), &stored, sizeof(Stored));
  }
}

inline Bytes combine(Combine how, const std::vector<Bytes>& operands) {
  Bytes out(operands[0].size());
  switch (how.dtype) {
    case DType::kF32:
      combine_as<Plain<float>>(how, operands, out);
      break;
    case DType::kF64:
      combine_as<Plain<double>>(how, operands, out);
      break;
    case DType::kF16:
      combine_as<Half>(how, operands, out);
      break;
    case DType::kBF16:
      combine_as<Brain>(how, operands, out);
      break;
    case DType::kI8:
      combine_as<Plain<std::int8_t>>(how, operands, out);
      break;
    case DType::kI16:
      combine_as<Plain<std::int16_t>>(how, operands, out);
      break;
    case DType::kI32:
      combine_as<Plain<std::int32_t>>(how, operands, out);
      break;
    case DType::kI64:
      combine_as<Plain<std::int64_t>>(how, operands, out);
      break;
    case DType::kU8:
      combine_as<Plain<std::uint8_t>>(how, operands, out);
      break;
    case DType::kBool:
      how.op = how.op == ReduceOp::kSum       ? ReduceOp::kMax
               : how.op == ReduceOp::kProduct ? ReduceOp::kMin
                                              : how.op;
      combine_as<Plain<std::uint8_t>>(how, operands, out);
      break;
  }
  return out;
}

}  // namespace trainyard::comm::reference
