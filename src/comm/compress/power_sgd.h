// SPDX-License-Identifier: Apache-2.0
// PowerSGD (Vogels, Karimireddy, Jaggi 2019, arXiv 1905.13727): a gradient as a matrix M of
// rows x columns is sent as two thin factors, P (rows x rank) and Q (columns x rank), found by one
// step of a subspace iteration that starts from the last step's Q. Both are linear in M, so plain
// all-reduces average them. One step on every rank (Algorithms 1 and 2):
//
//     p = project(state, gradient)      p = mean of all ranks' p       (all-reduce)
//     orthogonalize(p)
//     q = back_project(state, p)        q = mean of all ranks' q       (all-reduce)
//     update = rebuild(state, p, q)
//
// Error feedback is local, as in Algorithm 2: each rank keeps its own M minus what its own factors
// say, which stays small where ranks differ. Factors are stored one after another (rank x rows,
// rank x columns), matrices by rows. Pure functions over an explicit state; any thread; the same
// bits on all ranks for the same averages.
//
// Where an average has an infinity or NaN, the whole update is NaN on every rank, so that all see
// the overflow; the error becomes 0, as the step will be skipped, and Q keeps its directions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/compress/state.h"

namespace trainyard::comm {

// `rank` is lowered to the smaller side. Q is drawn from a normal distribution by `seed`, which all
// ranks must share.
PowerSgdState start_power_sgd(std::uint32_t rows, std::uint32_t columns, std::uint32_t rank,
                              std::uint64_t seed);

// M = gradient + error; returns P = M Q. state.error holds M until back_project().
std::vector<float> project(PowerSgdState& state, std::span<const float> gradient);

// Makes the `rank` factors of p orthonormal (Gram-Schmidt, twice). One that depends on those before
// it is replaced by a unit vector that does not: the subspace never loses a dimension for good.
// With an infinity or NaN anywhere, all of p becomes NaN, and so does every Q that is made with it.
void orthogonalize(std::span<float> p, std::uint32_t rank);

// Returns Q = M^T P for orthonormal P, and leaves M - P Q^T in state.error.
std::vector<float> back_project(PowerSgdState& state, std::span<const float> p);

// The same three over a state that lies elsewhere: one matrix's `error` (rows x columns) and `q`
// (rank x columns).
struct PowerSgdView {
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  std::uint32_t rank = 0;
  std::span<float> error;
  std::span<float> q;
};
void project(const PowerSgdView& state, std::span<const float> gradient, std::span<float> p);
void back_project(const PowerSgdView& state, std::span<const float> p, std::span<float> q);
void rebuild(const PowerSgdView& state, std::span<const float> p, std::span<const float> q,
             std::span<float> update);

// P Q^T, rows x columns; the averaged Q is what the next step starts from, but for factors of zero:
// these would leave no direction but that of the first rows, which may never get a gradient, so the
// former ones stay.
std::vector<float> rebuild(PowerSgdState& state, std::span<const float> p,
                           std::span<const float> q);

}  // namespace trainyard::comm
