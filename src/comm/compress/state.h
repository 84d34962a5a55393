// SPDX-License-Identifier: Apache-2.0
// What a compressor carries from one step to the next. Plain values: a rank saves its own with its
// checkpoint and loads them again; a world of another size starts with new ones, because residuals
// are of the gradients of one rank. save() and load() exist for each:
//
//     "YCS1" | kind: 1 byte | per array: length, 8 bytes, and that many 4-byte words
//
// all little-endian. load() gives kCorrupt for anything else, with what is wrong.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace trainyard::comm {

// Error feedback (Seide et al. 2014; Karimireddy et al. 2019, arXiv 1901.09847): what the last
// message left out of each value, to be added to the next. Empty: nothing yet.
struct Residual {
  std::vector<float> values;

  bool operator==(const Residual&) const = default;
};

// Deep Gradient Compression, in the symbols of its paper: u and v of every element.
struct DeepGradientState {
  std::vector<float> velocity;     // u: the local momentum
  std::vector<float> accumulated;  // v: what was not sent yet

  bool operator==(const DeepGradientState&) const = default;
};

// PowerSGD of one matrix.
struct PowerSgdState {
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  std::uint32_t rank = 0;
  std::vector<float> error;  // rows x columns
  std::vector<float> q;      // rank x columns: the factor that the next step starts from

  bool operator==(const PowerSgdState&) const = default;
};

std::string save(const Residual& state);
std::string save(const DeepGradientState& state);
std::string save(const PowerSgdState& state);
Result<Residual> load_residual(std::string_view bytes);
Result<DeepGradientState> load_deep_gradient(std::string_view bytes);
Result<PowerSgdState> load_power_sgd(std::string_view bytes);

}  // namespace trainyard::comm
