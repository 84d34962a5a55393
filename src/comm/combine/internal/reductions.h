// SPDX-License-Identifier: Apache-2.0
// The reductions of two vectors, each as a type for kernel_code.h to be instantiated with. `Number`
// is what the lanes mean. As vectors.h says, only the level_*.cc files include this.
#pragma once

#include "comm/combine/internal/vectors.h"

namespace trainyard::comm {
namespace {

struct Sum {
  template <typename Number, typename V>
  static YARD_INLINE V apply(V a, V b) {
    return a + b;
  }
};
struct Product {
  template <typename Number, typename V>
  static YARD_INLINE V apply(V a, V b) {
    return a * b;
  }
};
// The first of the two if it is less, or NaN: so NaN wins in any place.
struct Min {
  template <typename Number, typename V>
  static YARD_INLINE V apply(V a, V b) {
    const auto x = reinterpret_cast<Vector<Number>>(a);
    const auto y = reinterpret_cast<Vector<Number>>(b);
    return ((x < y) | (x != x)) ? a : b;
  }
};
struct Max {
  template <typename Number, typename V>
  static YARD_INLINE V apply(V a, V b) {
    const auto x = reinterpret_cast<Vector<Number>>(a);
    const auto y = reinterpret_cast<Vector<Number>>(b);
    return ((x > y) | (x != x)) ? a : b;
  }
};
struct BitAnd {
  template <typename Number, typename V>
  static YARD_INLINE V apply(V a, V b) {
    return a & b;
  }
};
struct BitOr {
  template <typename Number, typename V>
  static YARD_INLINE V apply(V a, V b) {
    return a | b;
  }
};
struct BitXor {
  template <typename Number, typename V>
  static YARD_INLINE V apply(V a, V b) {
    return a ^ b;
  }
};

// Truncates towards zero. The quotient of two integers of n bits is further from the next integer
// than the rounding error of a division with n + 1 significant bits or more, so reals do, and they
// have vector instructions.
template <typename Number>
void divide(std::byte* vector, std::int64_t divisor) {
  using Wide = std::conditional_t<sizeof(Number) == 8, Number,
                                  std::conditional_t<sizeof(Number) == 4, double, float>>;
  Number lanes[kVectorBytes / sizeof(Number)];
  std::memcpy(lanes, vector, kVectorBytes);
  for (Number& lane : lanes) {
    lane = static_cast<Number>(static_cast<Wide>(lane) / static_cast<Wide>(divisor));
  }
  std::memcpy(vector, lanes, kVectorBytes);
}

}  // namespace
}  // namespace trainyard::comm
