// SPDX-License-Identifier: Apache-2.0
#include "comm/combine/combine.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "comm/combine/internal/kernels.h"
#include "comm/combine/reference.h"

namespace trainyard::comm {
namespace {

using reference::Bytes;

constexpr std::array kAllDTypes = {DType::kF32, DType::kF64, DType::kBF16, DType::kF16,
                                   DType::kI8,  DType::kI16, DType::kI32,  DType::kI64,
                                   DType::kU8,  DType::kBool};
constexpr std::array kStores = {Store::kCached, Store::kNonTemporal};

bool is_real(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kBF16 ||
         dtype == DType::kF16;
}

// Every supported reduction, and an average of three.
std::vector<Combine> reductions_of(DType dtype) {
  std::vector<Combine> all;
  for (const ReduceOp op :
       {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kAverage,
        ReduceOp::kBitAnd, ReduceOp::kBitOr, ReduceOp::kBitXor}) {
    if (is_supported(op, dtype)) {
      all.push_back({.op = op, .dtype = dtype});
    }
  }
  if (dtype != DType::kBool) {
    all.push_back({.op = ReduceOp::kAverage,
                   .dtype = dtype,
                   .scale = is_real(dtype) ? 1.0 / 3 : 1.0,
                   .divisor = is_real(dtype) ? 1 : 3});
  }
  return all;
}

// Bits of NaN (with payload, signalling), infinities, zeros, subnormals and the largest numbers.
template <typename Bits>
Bits special(int exponent_bits, std::uint64_t draw) {
  const int fraction_bits = static_cast<int>(8 * sizeof(Bits)) - 1 - exponent_bits;
  const Bits fraction = static_cast<Bits>((std::uint64_t{1} << fraction_bits) - 1);
  const Bits infinity =
      static_cast<Bits>(((std::uint64_t{1} << exponent_bits) - 1) << fraction_bits);
  const std::array<Bits, 8> all = {
      infinity, static_cast<Bits>(infinity | fraction), static_cast<Bits>(infinity | 1), 0, 1,
      fraction, static_cast<Bits>(fraction + 1),        static_cast<Bits>(infinity - 1)};
  const Bits sign = static_cast<Bits>((draw >> 3 & 1) << (8 * sizeof(Bits) - 1));
  return static_cast<Bits>(all[draw % 8] | sign);
}

// Seven in eight are ordinary numbers of a few magnitudes.
template <typename Bits, typename Make>
void fill_reals(Bytes& bytes, std::mt19937_64& random, int exponent_bits, Make make) {
  for (std::size_t i = 0; i < bytes.size() / sizeof(Bits); ++i) {
    const std::uint64_t draw = random();
    const double ordinary =
        std::ldexp(static_cast<double>(draw >> 11) - 0x1p52, static_cast<int>(draw >> 4 & 15) - 60);
    const Bits bits = (draw & 7) == 0 ? special<Bits>(exponent_bits, draw >> 3)
                                      : static_cast<Bits>(make(ordinary));
    std::memcpy(bytes.data() + i * sizeof(Bits), &bits, sizeof(Bits));
  }
}

Bytes random_elements(DType dtype, std::size_t count, std::mt19937_64& random) {
  Bytes bytes(count * size_of(dtype));
  const auto as_float = [](double value) { return static_cast<float>(value); };
  switch (dtype) {
    case DType::kF32:
      fill_reals<std::uint32_t>(
          bytes, random, 8, [&](double v) { return std::bit_cast<std::uint32_t>(as_float(v)); });
      break;
    case DType::kF64:
      fill_reals<std::uint64_t>(bytes, random, 11,
                                [](double v) { return std::bit_cast<std::uint64_t>(v); });
      break;
    case DType::kF16:
      fill_reals<std::uint16_t>(bytes, random, 5,
                                [&](double v) { return reference::Half::narrow(as_float(v)); });
      break;
    case DType::kBF16:
      fill_reals<std::uint16_t>(bytes, random, 8,
                                [&](double v) { return reference::Brain::narrow(as_float(v)); });
      break;
    default:
      std::generate(bytes.begin(), bytes.end(), [&] {
        return static_cast<std::byte>(random() & (dtype == DType::kBool ? 1 : 255));
      });
  }
  return bytes;
}

std::vector<Bytes> random_operands(DType dtype, std::size_t operands, std::size_t count,
                                   std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Bytes> all(operands);
  std::generate(all.begin(), all.end(), [&] { return random_elements(dtype, count, random); });
  return all;
}

// Bytes `shift` bytes off a cache line, with guards on both sides.
class Place {
 public:
  Place(const Bytes& content, std::size_t shift)
      : size_(content.size()), bytes_(size_ + 256, kGuard) {
    const auto start = reinterpret_cast<std::uintptr_t>(bytes_.data());
    offset_ = 64 + (64 - start % 64) % 64 + shift;
    std::copy(content.begin(), content.end(),
              bytes_.begin() + static_cast<std::ptrdiff_t>(offset_));
  }
  std::byte* data() { return bytes_.data() + offset_; }
  [[nodiscard]] Bytes content() const {
    const auto start = bytes_.begin() + static_cast<std::ptrdiff_t>(offset_);
    return {start, start + static_cast<std::ptrdiff_t>(size_)};
  }
  [[nodiscard]] bool guards_hold() const {
    const auto untouched = [](std::byte b) { return b == kGuard; };
    const auto end = bytes_.begin() + static_cast<std::ptrdiff_t>(offset_ + size_);
    return std::all_of(bytes_.begin(), end - static_cast<std::ptrdiff_t>(size_), untouched) &&
           std::all_of(end, bytes_.end(), untouched);
  }

 private:
  static constexpr std::byte kGuard{0xa5};
  std::size_t size_;
  Bytes bytes_;
  std::size_t offset_;
};

struct Shape {
  std::size_t outs = 1;
  std::size_t shift = 0;  // of operand k: k * shift bytes off a line; of out k: one more
};

std::string describe(const Combine& how, const Kernels& kernels, const std::vector<Bytes>& operands,
                     const Shape& shape) {
  const auto level = std::find_if(levels().begin(), levels().end(),
                                  [&](Level l) { return &kernels_of(l) == &kernels; });
  return std::string(name_of(how.op)) + " of " + std::to_string(operands.size()) + " x " +
         std::to_string(operands[0].size() / size_of(how.dtype)) + " " +
         std::string(name_of(how.dtype)) + ", " + std::to_string(shape.outs) + " outs, shift " +
         std::to_string(shape.shift) + ", store " + std::to_string(static_cast<int>(how.store)) +
         ", level " + std::to_string(static_cast<int>(*level));
}

// Whether all outs are `expected`, bit by bit, and nothing else was written.
::testing::AssertionResult gives(const Kernels& kernels, const Combine& how,
                                 const std::vector<Bytes>& operands, const Shape& shape,
                                 const Bytes& expected) {
  std::vector<Place> in;
  std::vector<Place> out;
  std::vector<const std::byte*> in_places;
  std::vector<std::byte*> out_places;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    in_places.push_back(in.emplace_back(operands[k], k * shape.shift % 64).data());
  }
  for (std::size_t k = 0; k < shape.outs; ++k) {
    out_places.push_back(
        out.emplace_back(Bytes(expected.size()), (k + 1) * shape.shift % 64).data());
  }
  combine_by(kernels, how, out_places, in_places, expected.size() / size_of(how.dtype));
  for (const Place& place : out) {
    if (!place.guards_hold() || place.content() != expected) {
      const Bytes got = place.content();
      const auto at = std::mismatch(got.begin(), got.end(), expected.begin()).first - got.begin();
      return ::testing::AssertionFailure() << describe(how, kernels, operands, shape)
                                           << ": differs from byte " << at << " on, or beside it";
    }
  }
  return ::testing::AssertionSuccess();
}

// At every level, by both stores.
void expect_reference(Combine how, const std::vector<Bytes>& operands, const Shape& shape) {
  const Bytes expected = reference::combine(how, operands);
  for (const Level level : levels()) {
    for (const Store store : kStores) {
      how.store = store;
      EXPECT_TRUE(gives(kernels_of(level), how, operands, shape, expected));
    }
  }
}

std::string name_of_param(const ::testing::TestParamInfo<DType>& dtype) {
  return std::string(name_of(dtype.param));
}

class CombineTest : public ::testing::TestWithParam<DType> {};

INSTANTIATE_TEST_SUITE_P(DTypes, CombineTest, ::testing::ValuesIn(kAllDTypes), name_of_param);

TEST_P(CombineTest, GivesTheReferenceForEveryShortLength) {
  for (const Combine& how : reductions_of(GetParam())) {
    for (std::size_t count = 0; count <= 130; ++count) {
      const Shape shape{.outs = 1 + count % 3, .shift = count % 8};
      expect_reference(how, random_operands(how.dtype, 2 + count % 2, count, count), shape);
    }
  }
}

TEST_P(CombineTest, GivesTheReferenceForLongOnes) {
  for (const Combine& how : reductions_of(GetParam())) {
    const auto operands = random_operands(how.dtype, 2, 9'001, 7);
    expect_reference(how, operands, {.outs = 1});
    expect_reference(how, operands, {.outs = 2, .shift = 1});
  }
}

TEST_P(CombineTest, GivesTheReferenceForAnyNumberOfOperandsAndOuts) {
  for (std::size_t operands = 1; operands <= 9; ++operands) {
    for (const Combine& how : reductions_of(GetParam())) {
      if (operands > 1 || how.scale != 1.0 || how.divisor != 1) {
        expect_reference(how, random_operands(how.dtype, operands, 333, operands),
                         {.outs = operands, .shift = size_of(how.dtype)});
      }
    }
  }
}

TEST_P(CombineTest, CopiesOneOperandAsItIs) {
  const auto operands = random_operands(GetParam(), 1, 1'234, 5);
  for (const Level level : levels()) {
    for (const Store store : kStores) {
      const Combine how{.dtype = GetParam(), .store = store};
      EXPECT_TRUE(gives(kernels_of(level), how, operands, {.outs = 3, .shift = 3}, operands[0]));
    }
  }
}

TEST_P(CombineTest, MayWriteOverAnyOperand) {
  for (Combine how : reductions_of(GetParam())) {
    const auto operands = random_operands(how.dtype, 3, 3'001, 11);
    const Bytes expected = reference::combine(how, operands);
    for (std::size_t k = 0; k < 12; ++k) {
      how.store = kStores[k % 2];
      const Kernels& kernels = kernels_of(levels()[k / 2 % levels().size()]);
      std::vector<Bytes> memory = operands;
      const std::array<const std::byte*, 3> in = {memory[0].data(), memory[1].data(),
                                                  memory[2].data()};
      const std::array<std::byte*, 2> out = {memory[k % 3].data(), memory[(k + 1) % 3].data()};
      combine_by(kernels, how, out, in, 3'001);
      EXPECT_EQ(memory[k % 3], expected);
      EXPECT_EQ(memory[(k + 1) % 3], expected);
      EXPECT_EQ(memory[(k + 2) % 3], operands[(k + 2) % 3]);
    }
  }
}

TEST_P(CombineTest, GivesTheSameBitsHoweverTheRangeIsSplit) {
  const std::size_t size = size_of(GetParam());
  std::mt19937_64 random(3);
  for (Combine how : reductions_of(GetParam())) {
    const auto operands = random_operands(how.dtype, 2, 2'000, 13);
    Bytes whole(operands[0].size());
    combine(how, std::array{whole.data()}, std::array{&operands[0][0], &operands[1][0]}, 2'000);
    Bytes parts(whole.size());
    for (std::size_t at = 0; at < 2'000;) {
      const std::size_t count = std::min<std::size_t>(random() % 300, 2'000 - at);
      how.store = kStores[random() % 2];
      combine(how, std::array{parts.data() + at * size},
              std::array{operands[0].data() + at * size, operands[1].data() + at * size}, count);
      at += count;
    }
    EXPECT_EQ(parts, whole) << name_of(how.op);
  }
}

// All 65,536 of them, times 1.
class CombineOf16BitsTest : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(DTypes, CombineOf16BitsTest, ::testing::Values(DType::kF16, DType::kBF16),
                         name_of_param);

TEST_P(CombineOf16BitsTest, KeepsEveryNumber) {
  const std::uint16_t one = GetParam() == DType::kF16 ? 0x3c00 : 0x3f80;
  const std::uint16_t infinity = GetParam() == DType::kF16 ? 0x7c00 : 0x7f80;
  std::vector<Bytes> operands(2, Bytes(2 << 16));
  Bytes expected(2 << 16);
  for (std::uint32_t i = 0; i < 1 << 16; ++i) {
    const bool is_nan = (i & 0x7fff) > infinity;
    const auto bits = static_cast<std::uint16_t>(i);
    const auto kept =
        static_cast<std::uint16_t>(is_nan ? infinity | (infinity & -infinity) >> 1 : i);
    std::memcpy(&operands[0][2 * std::size_t{i}], &bits, 2);
    std::memcpy(&operands[1][2 * std::size_t{i}], &one, 2);
    std::memcpy(&expected[2 * std::size_t{i}], &kept, 2);
  }
  for (const Level level : levels()) {
    const Combine how{.op = ReduceOp::kProduct, .dtype = GetParam()};
    EXPECT_TRUE(gives(kernels_of(level), how, operands, {}, expected));
  }
}

template <typename T, std::size_t kOperands>
T combine_one(const Combine& how, const std::array<T, kOperands>& values) {
  std::array<const std::byte*, kOperands> in;
  std::transform(values.begin(), values.end(), in.begin(),
                 [](const T& value) { return reinterpret_cast<const std::byte*>(&value); });
  T result;
  combine(how, std::array{reinterpret_cast<std::byte*>(&result)}, in, 1);
  return result;
}

TEST(Combine, RoundsBFloat16Once) {
  // 1 + 2^-8 + 2^-8: each addition alone is a tie that goes back to 1.
  const Combine how{.dtype = DType::kBF16};
  EXPECT_EQ(combine_one(how, std::array<std::uint16_t, 3>{0x3f80, 0x3b80, 0x3b80}), 0x3f81);
}

TEST(Combine, WrapsIntegersAround) {
  const Combine how{.dtype = DType::kI8};
  EXPECT_EQ(combine_one(how, std::array<std::int8_t, 2>{127, 1}), -128);
}

TEST(Combine, AveragesIntegersTowardsZero) {
  const Combine how{.op = ReduceOp::kAverage, .dtype = DType::kI64, .divisor = 2};
  EXPECT_EQ(combine_one(how, std::array<std::int64_t, 2>{-4, 1}), -1);
  EXPECT_EQ(combine_one(how, std::array<std::int64_t, 2>{INT64_MIN, 0}), INT64_MIN / 2);
}

TEST(Combine, FindsNanInAnyPlace) {
  const Combine how{.op = ReduceOp::kMax, .dtype = DType::kF32};
  const float nan = std::nanf("");
  EXPECT_TRUE(std::isnan(combine_one(how, std::array{nan, 1.0F, 2.0F})));
  EXPECT_TRUE(std::isnan(combine_one(how, std::array{1.0F, nan, 2.0F})));
  EXPECT_TRUE(std::isnan(combine_one(how, std::array{1.0F, 2.0F, nan})));
}

TEST(CombineDeathTest, RefusesBitwiseReductionsOfReals) {
  const Combine how{.op = ReduceOp::kBitXor, .dtype = DType::kF32};
  EXPECT_DEATH(combine_one(how, std::array{1.0F, 2.0F}), "bitwise xor of float32");
}

TEST(Copy, CopiesEveryLengthFromAnywhereToAnywhere) {
  std::mt19937_64 random(17);
  for (const std::size_t bytes : {0, 1, 63, 64, 65, 127, 128, 129, 4'096, 300'001}) {
    for (std::size_t shift = 0; shift < 64; shift += 7) {
      const Bytes content = random_elements(DType::kU8, bytes, random);
      for (const Level level : levels()) {
        for (const Store store : kStores) {
          Place from(content, shift);
          Place to(Bytes(bytes), 3 * shift % 64);
          copy_by(kernels_of(level), to.data(), from.data(), bytes, store);
          EXPECT_TRUE(to.guards_hold() && to.content() == content) << bytes << " bytes";
        }
      }
    }
  }
}

}  // namespace
}  // namespace trainyard::comm
