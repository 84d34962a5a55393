// SPDX-License-Identifier: Apache-2.0
// Deep Gradient Compression (Lin, Han, Mao, Wang, Dally 2018, arXiv 1712.01887): only the largest
// accumulated updates are sent, a thousandth of them; everything else stays here and grows. The
// paper's measures against lost accuracy are all here: momentum correction and local gradient
// clipping (section 3.2), momentum factor masking and a warm-up of the sparsity (3.3). The sum of
// what ranks send is applied by plain SGD, for the momentum is in it. Pure functions over an
// explicit state; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/compress/state.h"

namespace trainyard::comm {

struct DeepGradientOptions {
  double density = 0.001;  // the share of elements sent after the warm-up, in (0, 1]
  int warmup_epochs = 4;   // 0: none
  float momentum = 0.9F;   // m; 0: no momentum correction
  bool is_nesterov = false;
  bool mask_momentum = true;  // forget the velocity of what was sent, so that it is not stale
  float clip_norm = 0.0F;     // of the whole world's gradient; 0: no clipping
  std::int32_t world = 1;
};

// Elements of a dense array, by ascending index.
struct Sparse {
  std::vector<std::uint32_t> indices;
  std::vector<float> values;

  bool operator==(const Sparse&) const = default;
};

// The share that is sent in this epoch (0 is the first): density^((epoch + 1) / (warmup + 1)), the
// paper's 25, 6.25, 1.5625, 0.4 and 0.1 % for the defaults.
double density_in(const DeepGradientOptions& options, int epoch);

// Indices of the `count` largest magnitudes, ascending. Exact; of equals, the lower index. NaN is
// larger than infinity, and that than all else: what overflowed is sent, and so seen.
std::vector<std::uint32_t> top_k(std::span<const float> values, std::size_t count);

// One step of one rank with its own `gradient`: updates the state (one of another length is taken
// for new) and returns what to send, ceil(density * elements) of them: the same count on all ranks.
// Of what is infinite or NaN, at least one is sent, so that every rank sees the overflow, and the
// rest becomes 0, as the step will be skipped.
Sparse compress(const DeepGradientOptions& options, int epoch, std::span<const float> gradient,
                DeepGradientState& state);

// The same over a state that lies elsewhere, with the density of now; all three as long as each
// other.
struct DeepGradientView {
  std::span<float> velocity;
  std::span<float> accumulated;
};
Sparse compress(const DeepGradientOptions& options, double density, std::span<const float> gradient,
                const DeepGradientView& state);

// dense[i] += scale * value, for every element sent.
void add_to(std::span<float> dense, const Sparse& sparse, float scale);

}  // namespace trainyard::comm
