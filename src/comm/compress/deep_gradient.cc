// SPDX-License-Identifier: Apache-2.0
#include "comm/compress/deep_gradient.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>

#include "base/check.h"

namespace trainyard::comm {
namespace {

// Magnitudes in the order of floats are in the order of their bits.
std::uint32_t magnitude_bits(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7fffffff;
}

struct Threshold {
  std::uint32_t bits = 0;  // everything above is chosen,
  std::size_t equals = 0;  // and the first so many of those that are equal
};

// By histograms of the highest 11 bits, then of the next 10 of those that are equal so far, and the
// last 10.
Threshold threshold_of(std::span<const float> values, std::size_t count) {
  struct Digit {
    int shift;
    int width;
  };
  Threshold found{.equals = count};
  std::vector<float> equal;
  for (const Digit place : {Digit{20, 11}, Digit{10, 10}, Digit{0, 10}}) {
    std::vector<std::size_t> histogram(std::size_t{1} << place.width);
    const auto mask = static_cast<std::uint32_t>(histogram.size() - 1);
    const auto digit_of = [&](float value) { return magnitude_bits(value) >> place.shift & mask; };
    for (const float value : values) {
      ++histogram[digit_of(value)];
    }
    std::uint32_t digit = mask;
    for (; histogram[digit] < found.equals; --digit) {
      found.equals -= histogram[digit];
    }
    found.bits |= digit << place.shift;
    std::vector<float> next;
    next.reserve(histogram[digit]);
    std::copy_if(values.begin(), values.end(), std::back_inserter(next),
                 [&](float value) { return digit_of(value) == digit; });
    equal = std::move(next);
    values = equal;
  }
  return found;
}

// Each rank clips at its part of the norm, before it accumulates.
float clip_factor(const DeepGradientOptions& options, std::span<const float> gradient) {
  if (options.clip_norm <= 0) {
    return 1.0F;
  }
  double squares = 0;
  for (const float value : gradient) {
    squares += static_cast<double>(value) * value;
  }
  const double limit = options.clip_norm / std::sqrt(static_cast<double>(options.world));
  const double norm = std::sqrt(squares);
  return norm > limit ? static_cast<float>(limit / norm) : 1.0F;
}

// Momentum correction: what is accumulated is the velocity, not the gradient. The paper's appendix
// has both forms, for plain and for Nesterov's momentum.
void accumulate(const DeepGradientOptions& options, std::span<const float> gradient,
                const DeepGradientView& state) {
  const float m = options.momentum;
  const float clip = clip_factor(options, gradient);
  float* u = state.velocity.data();
  float* v = state.accumulated.data();
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const float g = gradient[i] * clip;
    u[i] = options.is_nesterov ? m * (u[i] + g) : m * u[i] + g;
    v[i] += options.is_nesterov ? u[i] + g : u[i];
  }
}

// What is not finite is larger than all else and so the first to be sent: where nothing sent is,
// nothing kept is.
void forget_overflow(const Sparse& sent, const DeepGradientView& state) {
  const auto is_overflow = [](float value) { return !std::isfinite(value); };
  if (std::none_of(sent.values.begin(), sent.values.end(), is_overflow)) {
    return;
  }
  for (const std::span<float> kept : {state.velocity, state.accumulated}) {
    std::replace_if(kept.begin(), kept.end(), is_overflow, 0.0F);
  }
}

}  // namespace

double density_in(const DeepGradientOptions& options, int epoch) {
  YARD_CHECK(options.density > 0 && options.density <= 1, "a density out of (0, 1]");
  if (epoch >= options.warmup_epochs) {
    return options.density;
  }
  return std::pow(options.density, (epoch + 1.0) / (options.warmup_epochs + 1.0));
}

std::vector<std::uint32_t> top_k(std::span<const float> values, std::size_t count) {
  YARD_CHECK(values.size() <= std::numeric_limits<std::uint32_t>::max(), "indices have 32 bits");
  std::vector<std::uint32_t> chosen;
  count = std::min(count, values.size());
  if (count == 0) {
    return chosen;
  }
  chosen.reserve(count);
  Threshold threshold = threshold_of(values, count);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t bits = magnitude_bits(values[i]);
    const bool is_equal = bits == threshold.bits && threshold.equals > 0;
    if (is_equal) {
      --threshold.equals;
    }
    if (is_equal || bits > threshold.bits) {
      chosen.push_back(static_cast<std::uint32_t>(i));
    }
  }
  return chosen;
}

Sparse compress(const DeepGradientOptions& options, double density, std::span<const float> gradient,
                const DeepGradientView& state) {
  const std::size_t count = gradient.size();
  YARD_CHECK(state.velocity.size() == count && state.accumulated.size() == count,
             "a state for each element");
  accumulate(options, gradient, state);
  const double wanted = std::ceil(density * static_cast<double>(count));
  Sparse sent{.indices = top_k(state.accumulated, static_cast<std::size_t>(wanted)), .values = {}};
  sent.values.reserve(sent.indices.size());
  for (const std::uint32_t i : sent.indices) {
    sent.values.push_back(state.accumulated[i]);
    state.accumulated[i] = 0;
    state.velocity[i] = options.mask_momentum ? 0.0F : state.velocity[i];
  }
  forget_overflow(sent, state);
  return sent;
}

Sparse compress(const DeepGradientOptions& options, int epoch, std::span<const float> gradient,
                DeepGradientState& state) {
  const std::size_t count = gradient.size();
  if (state.velocity.size() != count || state.accumulated.size() != count) {
    state.velocity.assign(count, 0.0F);
    state.accumulated.assign(count, 0.0F);
  }
  return compress(options, density_in(options, epoch), gradient,
                  {.velocity = state.velocity, .accumulated = state.accumulated});
}

void add_to(std::span<float> dense, const Sparse& sparse, float scale) {
  YARD_CHECK(sparse.indices.size() == sparse.values.size(), "an index for each value");
  YARD_CHECK(sparse.indices.empty() || sparse.indices.back() < dense.size(), "an index too large");
  for (std::size_t k = 0; k < sparse.indices.size(); ++k) {
    dense[sparse.indices[k]] += scale * sparse.values[k];
  }
}

}  // namespace trainyard::comm
