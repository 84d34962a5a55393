// SPDX-License-Identifier: Apache-2.0
// Vectors of the instruction set that the including file is compiled for, and the elements that are
// kept in them: how each is loaded, computed with and stored. Only the level_*.cc files include
// this, by way of kernel_code.h. Everything is in an unnamed namespace and no inline function of
// another header is used: a copy of one, compiled for AVX-512, might be the one that the linker
// keeps for the whole program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define YARD_INLINE inline __attribute__((always_inline))

namespace trainyard::comm {
namespace {

#if defined(__AVX512BW__)
constexpr std::size_t kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr std::size_t kVectorBytes = 32;
#else
constexpr std::size_t kVectorBytes = 16;
#endif

template <typename Lane>
struct VectorOf {
  typedef Lane Type __attribute__((vector_size(kVectorBytes)));
};
template <typename Lane>
using Vector = typename VectorOf<Lane>::Type;

template <typename Lane>
YARD_INLINE Vector<Lane> load_vector(const std::byte* from) {
  Vector<Lane> vector;
  std::memcpy(&vector, from, kVectorBytes);
  return vector;
}

template <typename Lane>
YARD_INLINE void store_vector(std::byte* to, Vector<Lane> vector) {
  std::memcpy(to, &vector, kVectorBytes);
}

// `to` is aligned to kVectorBytes.
YARD_INLINE void stream_vector(std::byte* to, Vector<std::uint8_t> vector) {
#if defined(__AVX512BW__)
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), reinterpret_cast<__m512i>(vector));
#elif defined(__AVX2__)
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), reinterpret_cast<__m256i>(vector));
#elif defined(__x86_64__)
  _mm_stream_si128(reinterpret_cast<__m128i*>(to), reinterpret_cast<__m128i>(vector));
#else
  store_vector<std::uint8_t>(to, vector);
#endif
}

// The result of an operation on reals: times the scale, and any NaN made the quiet one without sign
// or payload. Which of two NaNs an addition keeps is the compiler's choice, and levels would
// differ.
template <typename Real>
YARD_INLINE Vector<Real> finished(Vector<Real> value, Real scale) {
  const Vector<Real> nan = Vector<Real>{} + static_cast<Real>(__builtin_nan(""));
  value = value * scale;
  return value != value ? nan : value;
}

// An element computed with as it is stored. Integers are kept in unsigned lanes, so that they wrap;
// Number says what they mean.
template <typename T>
struct Whole {
  using Number = T;
  using Lane = std::make_unsigned_t<T>;
  struct Value {
    Vector<Lane> part[1];
  };
  static constexpr std::size_t kParts = 1;

  static YARD_INLINE Value load(const std::byte* from) { return {{load_vector<Lane>(from)}}; }
  static YARD_INLINE void store(std::byte* to, const Value& value) {
    store_vector<Lane>(to, value.part[0]);
  }
};

template <typename T>
struct Real {
  using Number = T;
  using Lane = T;
  struct Value {
    Vector<T> part[1];
  };
  static constexpr std::size_t kParts = 1;

  static YARD_INLINE Value load(const std::byte* from) { return {{load_vector<T>(from)}}; }
  static YARD_INLINE void store(std::byte* to, const Value& value) {
    store_vector<T>(to, value.part[0]);
  }
};

using Words = Vector<std::uint32_t>;
using Floats = Vector<float>;
// As many 16-bit elements as there are floats in a vector.
typedef std::uint16_t Shorts __attribute__((vector_size(kVectorBytes / 2)));

YARD_INLINE Words load_shorts(const std::byte* from) {
  Shorts shorts;
  std::memcpy(&shorts, from, sizeof(shorts));
  return __builtin_convertvector(shorts, Words);
}

YARD_INLINE void store_shorts(std::byte* to, Words words) {
  const Shorts shorts = __builtin_convertvector(words, Shorts);
  std::memcpy(to, &shorts, sizeof(shorts));
}

// Two 16-bit elements in each 32-bit word: the lower ones are computed in part[0], the upper ones
// in part[1]. Rounding to nearest even adds half of the last kept place, less one where the result
// would be odd. (vcvtne2ps2bf16 does not do: it takes denormals as zeros.) NaN is finished() here.
struct BFloat16 {
  using Number = float;
  using Lane = float;
  struct Value {
    Floats part[2];
  };
  static constexpr std::size_t kParts = 2;

  static YARD_INLINE Value load(const std::byte* from) {
    const Words words = load_vector<std::uint32_t>(from);
    return {{reinterpret_cast<Floats>(words << 16), reinterpret_cast<Floats>(words & 0xffff0000U)}};
  }
  static YARD_INLINE void store(std::byte* to, const Value& value) {
    store_vector<std::uint32_t>(
        to, rounded(value.part[0]) >> 16 | (rounded(value.part[1]) & 0xffff0000U));
  }

  // A vector of floats from and to half as many bytes.
  static YARD_INLINE Floats widen(const std::byte* from) {
    return reinterpret_cast<Floats>(load_shorts(from) << 16);
  }
  static YARD_INLINE void narrow(std::byte* to, Floats value) {
    store_shorts(to, rounded(value) >> 16);
  }

 private:
  static YARD_INLINE Words rounded(Floats value) {
    const Words bits = reinterpret_cast<Words>(value);
    return bits + 0x7fffU + (bits >> 16 & 1U);
  }
};

#if defined(__F16C__)
struct Float16 {
  using Number = float;
  using Lane = float;
  struct Value {
    Floats part[2];
  };
  static constexpr std::size_t kParts = 2;

  static YARD_INLINE Value load(const std::byte* from) {
    return {{widen(from), widen(from + kVectorBytes / 2)}};
  }
  static YARD_INLINE void store(std::byte* to, const Value& value) {
    narrow(to, value.part[0]);
    narrow(to + kVectorBytes / 2, value.part[1]);
  }

  // A vector of floats from and to half as many bytes.
  static constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
#if defined(__AVX512BW__)
  // The forms with a mask, as GCC 12 warns of its own header in the others.
  static YARD_INLINE Floats widen(const std::byte* from) {
    const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return _mm512_maskz_cvtph_ps(0xffff, half);
  }
  static YARD_INLINE void narrow(std::byte* to, Floats value) {
    const __m256i half = _mm512_maskz_cvtps_ph(0xffff, value, kNearest);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), half);
  }
#else
  static YARD_INLINE Floats widen(const std::byte* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  static YARD_INLINE void narrow(std::byte* to, Floats value) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(value, kNearest));
  }
#endif
};
#else
// By integer arithmetic (IEEE 754 binary16: 1 sign, 5 exponent, 10 fraction bits). A subnormal half
// is its fraction times 2^-24, which is also the last place of a float in [0.5, 1): adding 0.5
// rounds to it, taking 0.5 away again gives its value; no float is ever subnormal on the way.
struct Float16 {
  using Number = float;
  using Lane = float;
  struct Value {
    Floats part[2];
  };
  static constexpr std::size_t kParts = 2;

  static YARD_INLINE Value load(const std::byte* from) {
    const Words words = load_vector<std::uint32_t>(from);
    return {{widened(words & 0xffffU), widened(words >> 16)}};
  }
  static YARD_INLINE void store(std::byte* to, const Value& value) {
    store_vector<std::uint32_t>(to, narrowed(value.part[0]) | narrowed(value.part[1]) << 16);
  }

  // A vector of floats from and to half as many bytes.
  static YARD_INLINE Floats widen(const std::byte* from) { return widened(load_shorts(from)); }
  static YARD_INLINE void narrow(std::byte* to, Floats value) { store_shorts(to, narrowed(value)); }

 private:
  static constexpr std::uint32_t kHalf = 0x3f000000;          // 0.5f
  static constexpr std::uint32_t kRebias = (127 - 15) << 23;  // of the exponent

  static YARD_INLINE Floats widened(Words half) {
    const Words magnitude = half & 0x7fffU;
    const Words small = reinterpret_cast<Words>(reinterpret_cast<Floats>(magnitude + kHalf) - 0.5F);
    const Words normal = (magnitude << 13) + kRebias;
    Words bits = magnitude < 0x400U ? small : normal;
    bits = magnitude >= 0x7c00U ? normal + kRebias : bits;  // infinity and NaN
    return reinterpret_cast<Floats>(bits | (half & 0x8000U) << 16);
  }
  static YARD_INLINE Words narrowed(Floats value) {
    const Words bits = reinterpret_cast<Words>(value);
    const Words magnitude = bits & 0x7fffffffU;
    const Words small = reinterpret_cast<Words>(reinterpret_cast<Floats>(magnitude) + 0.5F) - kHalf;
    const Words normal = (magnitude - kRebias + 0xfffU + (magnitude >> 13 & 1U)) >> 13;
    const Words limit = magnitude > 0x7f800000U ? Words{} + 0x7e00U : Words{} + 0x7c00U;
    Words half = magnitude < 0x38800000U ? small : normal;  // 2^-14
    half = magnitude >= 0x47800000U ? limit : half;         // 2^16
    return half | (bits >> 16 & 0x8000U);
  }
};
#endif

}  // namespace
}  // namespace trainyard::comm
