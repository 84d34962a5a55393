// SPDX-License-Identifier: Apache-2.0
// The kernels for any processor; on x86-64 with SSE2, its baseline.
#include "comm/combine/internal/kernel_code.h"

namespace trainyard::comm {

const Kernels& plain_kernels() {
  static constexpr Kernels kKernels = make_kernels();
  return kKernels;
}

}  // namespace trainyard::comm
