// SPDX-License-Identifier: Apache-2.0
// fp32 to 16 bits and back, for gradients that travel at half their size and are summed in fp32.
// To nearest, ties to even (IEEE 754); what is too large becomes infinity, NaN stays NaN. `dtype`
// is kF16 or kBF16; 2 bytes of `bytes` for each value. Values are multiplied by `scale` first. Pure
// functions, any thread; the kernels are those of combine/.
#pragma once

#include <cstddef>
#include <span>

#include "comm/types.h"

namespace trainyard::comm {

void narrow(DType dtype, std::span<const float> values, std::span<std::byte> bytes,
            float scale = 1.0F);
void widen(DType dtype, std::span<const std::byte> bytes, std::span<float> values);

}  // namespace trainyard::comm
