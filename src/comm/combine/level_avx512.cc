// SPDX-License-Identifier: Apache-2.0
// The kernels compiled with AVX-512 (F, BW, DQ, VL).
#if defined(__x86_64__)
#include "comm/combine/internal/kernel_code.h"

namespace trainyard::comm {

const Kernels& avx512_kernels() {
  static constexpr Kernels kKernels = make_kernels();
  return kKernels;
}

}  // namespace trainyard::comm
#endif
