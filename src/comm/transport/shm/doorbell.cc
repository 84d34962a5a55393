// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/shm/doorbell.h"

#include <climits>
#include <ctime>

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace trainyard::comm {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t), "a futex is 32 bits");

long membarrier(int command) {
  return syscall(SYS_membarrier, command, 0, 0);
}

}  // namespace

bool register_for_light_barriers() {
  return membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
}

void Doorbell::heavy_barrier(bool fences) {
  // The call cannot fail once a process has registered; the fence orders this thread in any case.
  fence(std::memory_order_seq_cst);
  if (!fences) {
    membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
  }
}

void Doorbell::ring() {
  rings.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, &rings, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Doorbell::wake() {
  if (waits.exchange(0, std::memory_order_acq_rel) != 0) {
    ring();
  }
}

void Doorbell::wait_for_ring(std::uint32_t before, std::chrono::microseconds limit) {
  const auto whole = std::chrono::floor<std::chrono::seconds>(limit);
  const std::chrono::nanoseconds rest = limit - whole;
  const timespec time = {.tv_sec = whole.count(), .tv_nsec = rest.count()};
  syscall(SYS_futex, &rings, FUTEX_WAIT, before, &time, nullptr, 0);
}

}  // namespace trainyard::comm
