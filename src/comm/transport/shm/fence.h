// SPDX-License-Identifier: Apache-2.0
// A fence of that order.
#pragma once

#include <atomic>

namespace trainyard::comm {

// ThreadSanitizer does not model fences, and the compiler says so; of two plain accesses that
// depend on one, the later one's result is thrown away.
inline void fence(std::memory_order order) {
#pragma GCC diagnostic push
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wtsan"
#endif
  std::atomic_thread_fence(order);
#pragma GCC diagnostic pop
}

}  // namespace trainyard::comm
