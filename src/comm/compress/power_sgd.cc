// SPDX-License-Identifier: Apache-2.0
#include "comm/compress/power_sgd.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>

#include "base/check.h"

namespace trainyard::comm {
namespace {

// In many lanes, which is what lets a compiler make vectors of a sum.
float dot(std::span<const float> a, std::span<const float> b) {
  constexpr std::size_t kLanes = 16;
  std::array<float, kLanes> lanes = {};
  const std::size_t whole = a.size() - a.size() % kLanes;
  for (std::size_t at = 0; at < whole; at += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] += a[at + lane] * b[at + lane];
    }
  }
  for (std::size_t at = whole; at < a.size(); ++at) {
    lanes[at - whole] += a[at] * b[at];
  }
  double sum = 0;
  for (const float lane : lanes) {
    sum += lane;
  }
  return static_cast<float>(sum);
}

void add_scaled(std::span<float> to, float scale, std::span<const float> from) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    to[i] += scale * from[i];
  }
}

double exact_dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += static_cast<double>(a[i]) * b[i];
  }
  return sum;
}

// Row or factor `k` of a matrix whose lines have `length` elements.
template <typename Floats>
auto line(Floats&& all, std::size_t k, std::size_t length) {
  return std::span(all).subspan(k * length, length);
}

void remove_earlier(std::span<float> p, std::size_t k, std::size_t length) {
  const std::span<float> factor = line(p, k, length);
  for (std::size_t before = 0; before < k; ++before) {
    const std::span<const float> other = line(p, before, length);
    add_scaled(factor, static_cast<float>(-exact_dot(factor, other)), other);
  }
}

// The axis that the factors before `k` have least of.
std::size_t freest_axis(std::span<const float> p, std::size_t k, std::size_t length) {
  std::vector<double> taken(length);
  for (std::size_t i = 0; i < k * length; ++i) {
    taken[i % length] += static_cast<double>(p[i]) * p[i];
  }
  return static_cast<std::size_t>(std::min_element(taken.begin(), taken.end()) - taken.begin());
}

bool normalize(std::span<float> factor, double at_least) {
  const double norm = std::sqrt(exact_dot(factor, factor));
  if (norm <= at_least) {
    return false;
  }
  for (float& value : factor) {
    value = static_cast<float>(value / norm);
  }
  return true;
}

bool are_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

// The update of a step that overflowed, and a state that the next one can start from: only the
// directions of Q count, and at length one they are not themselves what overflows.
void show_overflow(const PowerSgdView& state, std::span<float> update) {
  std::fill(update.begin(), update.end(), std::numeric_limits<float>::quiet_NaN());
  std::fill(state.error.begin(), state.error.end(), 0.0F);
  for (std::size_t k = 0; k < state.rank; ++k) {
    normalize(line(state.q, k, state.columns), 0);
  }
}

// Box and Muller (1958): the standard's distributions differ between libraries.
float next_normal(std::mt19937_64& random) {
  const auto uniform = [&] { return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53; };
  const double radius = std::sqrt(-2 * std::log(uniform()));
  return static_cast<float>(radius * std::cos(2 * std::numbers::pi * uniform()));
}

PowerSgdView view_of(PowerSgdState& state) {
  return {.rows = state.rows,
          .columns = state.columns,
          .rank = state.rank,
          .error = state.error,
          .q = state.q};
}

}  // namespace

PowerSgdState start_power_sgd(std::uint32_t rows, std::uint32_t columns, std::uint32_t rank,
                              std::uint64_t seed) {
  PowerSgdState state{.rows = rows,
                      .columns = columns,
                      .rank = std::min({rank, rows, columns}),
                      .error = {},
                      .q = {}};
  state.error.resize(std::size_t{rows} * columns);
  state.q.resize(std::size_t{state.rank} * columns);
  std::mt19937_64 random(seed);
  std::generate(state.q.begin(), state.q.end(), [&] { return next_normal(random); });
  return state;
}

void project(const PowerSgdView& state, std::span<const float> gradient, std::span<float> p) {
  YARD_CHECK(gradient.size() == state.error.size(), "a gradient of another shape");
  for (std::size_t row = 0; row < state.rows; ++row) {
    const std::span<float> m = line(state.error, row, state.columns);
    add_scaled(m, 1.0F, line(gradient, row, state.columns));
    for (std::size_t k = 0; k < state.rank; ++k) {
      p[k * state.rows + row] = dot(m, line(state.q, k, state.columns));
    }
  }
}

std::vector<float> project(PowerSgdState& state, std::span<const float> gradient) {
  std::vector<float> p(std::size_t{state.rank} * state.rows);
  project(view_of(state), gradient, p);
  return p;
}

void orthogonalize(std::span<float> p, std::uint32_t rank) {
  constexpr double kDependent = 1e-6;  // of its former length: what fp32 leaves of nothing
  const std::size_t length = rank == 0 ? 0 : p.size() / rank;
  YARD_CHECK(rank <= length || rank == 0, "more factors than dimensions");
  if (!are_finite(p)) {
    std::fill(p.begin(), p.end(), std::numeric_limits<float>::quiet_NaN());
    return;
  }
  for (std::size_t k = 0; k < rank; ++k) {
    const std::span<float> factor = line(p, k, length);
    const double norm = std::sqrt(exact_dot(factor, factor));
    remove_earlier(p, k, length);
    if (!normalize(factor, kDependent * norm)) {
      std::fill(factor.begin(), factor.end(), 0.0F);
      factor[freest_axis(p, k, length)] = 1.0F;
      remove_earlier(p, k, length);
      normalize(factor, 0);
    }
    remove_earlier(p, k, length);
    normalize(factor, 0);
  }
}

void back_project(const PowerSgdView& state, std::span<const float> p, std::span<float> q) {
  YARD_CHECK(p.size() == std::size_t{state.rank} * state.rows, "factors of another shape");
  std::fill(q.begin(), q.end(), 0.0F);
  for (std::size_t row = 0; row < state.rows; ++row) {
    for (std::size_t k = 0; k < state.rank; ++k) {
      add_scaled(line(q, k, state.columns), p[k * state.rows + row],
                 line(state.error, row, state.columns));
    }
  }
  for (std::size_t row = 0; row < state.rows; ++row) {
    for (std::size_t k = 0; k < state.rank; ++k) {
      add_scaled(line(state.error, row, state.columns), -p[k * state.rows + row],
                 line(q, k, state.columns));
    }
  }
}

std::vector<float> back_project(PowerSgdState& state, std::span<const float> p) {
  std::vector<float> q(state.q.size());
  back_project(view_of(state), p, q);
  return q;
}

void rebuild(const PowerSgdView& state, std::span<const float> p, std::span<const float> q,
             std::span<float> update) {
  YARD_CHECK(q.size() == state.q.size(), "factors of another shape");
  if (!are_finite(q)) {
    show_overflow(state, update);
    return;
  }
  std::fill(update.begin(), update.end(), 0.0F);
  for (std::size_t row = 0; row < state.rows; ++row) {
    for (std::size_t k = 0; k < state.rank; ++k) {
      add_scaled(line(update, row, state.columns), p[k * state.rows + row],
                 line(q, k, state.columns));
    }
  }
  for (std::size_t k = 0; k < state.rank; ++k) {
    const std::span<const float> next = line(q, k, state.columns);
    if (std::any_of(next.begin(), next.end(), [](float v) { return v != 0; })) {
      std::copy(next.begin(), next.end(), line(state.q, k, state.columns).begin());
    }
  }
}

std::vector<float> rebuild(PowerSgdState& state, std::span<const float> p,
                           std::span<const float> q) {
  std::vector<float> update(state.error.size());
  rebuild(view_of(state), p, q, update);
  return update;
}

}  // namespace trainyard::comm
