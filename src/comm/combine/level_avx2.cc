// SPDX-License-Identifier: Apache-2.0
// The kernels compiled with AVX2, FMA and F16C.
#if defined(__x86_64__)
#include "comm/combine/internal/kernel_code.h"

namespace trainyard::comm {

const Kernels& avx2_kernels() {
  static constexpr Kernels kKernels = make_kernels();
  return kKernels;
}

}  // namespace trainyard::comm
#endif
