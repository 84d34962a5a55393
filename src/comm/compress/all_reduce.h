// SPDX-License-Identifier: Apache-2.0
// All-reduces of fp32 gradients that send fewer bytes: in place, the average over all ranks. Each
// is one or two operations of the communicator, issued at once; what lies between them (encoding,
// local sums, factors) runs on the thread that performs them, in their order. So compressed
// gradients overlap the computation as plain ones do, and ranks that issue them in one order need
// no more. The Work is that of the last operation: the values are there when it is done.
//
// `values` and all state are the caller's and stay alive until then; state belongs to this rank and
// to these elements, and zeros are a new one. Errors as those of Communicator::issue().
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "comm/communicator.h"
#include "comm/compress/deep_gradient.h"
#include "comm/compress/power_sgd.h"

namespace trainyard::comm {

using Timeout = std::optional<std::chrono::milliseconds>;

// As kF16 or kBF16. Values are divided by the world before they are narrowed, so that their sum
// does not overflow where their average does not.
Result<Work> all_reduce_narrow(Communicator& communicator, DType dtype, std::span<float> values,
                               Timeout timeout = std::nullopt);

// In int8 by blocks, there and back: every rank sends each part to its owner, who sums in fp32, and
// sends the average to all. Both times what is rounded away is kept for the next step.
struct Int8State {
  std::size_t block = 256;
  std::span<float> residual;  // of `values`
  std::span<float> owned;     // of the part that this rank owns: owned_by_each() of them
};
// Whole blocks, the same for each rank: the last ones may own values that are not there.
std::size_t owned_by_each(std::size_t count, std::int32_t world, std::size_t block);
Result<Work> all_reduce_int8(Communicator& communicator, std::span<float> values,
                             const Int8State& state, Timeout timeout = std::nullopt);

// Deep Gradient Compression: the largest ceil(density * elements) of each rank.
Result<Work> all_reduce_deep_gradient(Communicator& communicator, std::span<float> values,
                                      const DeepGradientOptions& options,
                                      const DeepGradientView& state,
                                      Timeout timeout = std::nullopt);

// PowerSGD for the matrices that lie in `values`, ascending; what is between them goes as it is.
struct PowerSgdMatrix {
  std::size_t offset = 0;
  PowerSgdView state;
};
Result<Work> all_reduce_power_sgd(Communicator& communicator, std::span<float> values,
                                  std::vector<PowerSgdMatrix> matrices,
                                  Timeout timeout = std::nullopt);

}  // namespace trainyard::comm
