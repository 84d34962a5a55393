// SPDX-License-Identifier: Apache-2.0
// Tells the processor that this loop only looks.
#pragma once

namespace trainyard::comm {

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

}  // namespace trainyard::comm
