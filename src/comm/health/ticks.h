// SPDX-License-Identifier: Apache-2.0
// The cheapest clock there is: a counter of the processor that runs at a constant rate, in units of
// its own. For records that are converted when somebody reads them; never for time-outs.
#pragma once

#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace trainyard::comm {

inline std::uint64_t ticks_now() {
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  std::uint64_t ticks = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

}  // namespace trainyard::comm
