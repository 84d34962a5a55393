// SPDX-License-Identifier: Apache-2.0
// fp32 to 16 bits and back, whole vectors at a time and the rest by way of padded copies. As
// vectors.h says, only the level_*.cc files include this.
#pragma once

#include "comm/combine/internal/vectors.h"

namespace trainyard::comm {
namespace {

constexpr std::size_t kFloats = kVectorBytes / sizeof(float);

// Format: Float16 or BFloat16.
template <typename Format>
void narrow(const float* values, float scale, std::byte* bytes, std::size_t count) {
  constexpr std::size_t kBytes = kVectorBytes / 2;
  std::size_t i = 0;
  for (; i + kFloats <= count; i += kFloats) {
    const Floats value = load_vector<float>(reinterpret_cast<const std::byte*>(values + i));
    Format::narrow(bytes + 2 * i, finished<float>(value, scale));
  }
  if (i == count) {
    return;
  }
  std::byte padded[kVectorBytes] = {};
  std::memcpy(padded, values + i, (count - i) * sizeof(float));
  std::byte narrowed[kBytes];
  Format::narrow(narrowed, finished<float>(load_vector<float>(padded), scale));
  std::memcpy(bytes + 2 * i, narrowed, 2 * (count - i));
}

template <typename Format>
void widen(const std::byte* bytes, float* values, std::size_t count) {
  std::size_t i = 0;
  for (; i + kFloats <= count; i += kFloats) {
    store_vector<float>(reinterpret_cast<std::byte*>(values + i), Format::widen(bytes + 2 * i));
  }
  if (i == count) {
    return;
  }
  std::byte padded[kVectorBytes / 2] = {};
  std::memcpy(padded, bytes + 2 * i, 2 * (count - i));
  std::byte widened[kVectorBytes];
  store_vector<float>(widened, Format::widen(padded));
  std::memcpy(values + i, widened, (count - i) * sizeof(float));
}

}  // namespace
}  // namespace trainyard::comm
