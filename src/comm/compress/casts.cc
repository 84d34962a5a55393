// SPDX-License-Identifier: Apache-2.0
#include "comm/compress/casts.h"

#include "base/check.h"
#include "comm/combine/internal/kernels.h"

namespace trainyard::comm {
namespace {

const Casts& casts_of(DType dtype, std::size_t values, std::size_t bytes) {
  YARD_CHECK(dtype == DType::kF16 || dtype == DType::kBF16, name_of(dtype));
  YARD_CHECK(bytes == 2 * values, "two bytes for each value");
  return dtype == DType::kF16 ? best_kernels().half : best_kernels().brain;
}

}  // namespace

void narrow(DType dtype, std::span<const float> values, std::span<std::byte> bytes, float scale) {
  casts_of(dtype, values.size(), bytes.size())
      .narrow(values.data(), scale, bytes.data(), values.size());
}

void widen(DType dtype, std::span<const std::byte> bytes, std::span<float> values) {
  casts_of(dtype, values.size(), bytes.size()).widen(bytes.data(), values.data(), values.size());
}

}  // namespace trainyard::comm
