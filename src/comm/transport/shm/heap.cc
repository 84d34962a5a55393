// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/shm/heap.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <sys/resource.h>

namespace trainyard::comm {
namespace {

// The system gives the lowest number that is free: all below `fd` are in use.
Result<void> leave_descriptors(int fd) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && static_cast<rlim_t>(fd) >= limit.rlim_cur / 2) {
    return Error{Code::kExhausted,
                 fmt::format("half of the {} descriptors of this process are in use (ulimit -n)",
                             limit.rlim_cur)};
  }
  return {};
}

}  // namespace

Result<HeapRegistry::Made> HeapRegistry::make(std::size_t bytes) {
  YARD_TRY(SharedMemory memory, SharedMemory::create("trainyard-heap", bytes));
  YARD_TRY(leave_descriptors(memory.fd()));
  Made made = {.fd = memory.fd(), .memory = std::make_shared<SharedMemory>(std::move(memory))};
  const MutexLock lock(mutex_);
  made.heap = ++last_;
  own_.emplace(made.memory->bytes().data(), made);
  return made;
}

void HeapRegistry::forget(std::uint64_t heap) {
  const MutexLock lock(mutex_);
  std::erase_if(own_, [&](const auto& entry) { return entry.second.heap == heap; });
}

Result<void> HeapRegistry::withdraw() {
  std::vector<std::shared_ptr<SharedMemory>> left;
  {
    const MutexLock lock(mutex_);
    if (std::exchange(is_withdrawn_, true)) {
      return {};
    }
    for (const auto& [address, made] : own_) {
      left.push_back(made.memory);
    }
  }
  Result<void> all;
  for (const auto& memory : left) {
    const Result<void> one = memory->make_private();
    if (!one && all) {
      all = one;
    }
  }
  return all;
}

Result<void> HeapRegistry::add_peers(std::int32_t peer, std::uint64_t heap, Fd fd) {
  YARD_TRY(SharedMemory mapped, SharedMemory::map(std::move(fd)));
  mapped.close_fd();
  const MutexLock lock(mutex_);
  peers_.insert_or_assign({peer, heap},
                          Peers{.memory = std::make_shared<SharedMemory>(std::move(mapped))});
  return {};
}

void HeapRegistry::forget_peers(std::int32_t peer, std::uint64_t heap) {
  const MutexLock lock(mutex_);
  peers_.erase({peer, heap});
}

Window HeapRegistry::window_of(std::span<const std::byte> bytes) const {
  const MutexLock lock(mutex_);
  const auto after = own_.upper_bound(bytes.data());
  if (is_withdrawn_ || after == own_.begin()) {
    return {};
  }
  const Made& made = std::prev(after)->second;
  const auto offset = static_cast<std::size_t>(bytes.data() - made.memory->bytes().data());
  const std::size_t size = made.memory->bytes().size();
  if (offset > size || bytes.size() > size - offset) {
    return {};
  }
  return {.heap = made.heap, .offset = offset};
}

std::shared_ptr<std::byte> HeapRegistry::map(std::int32_t peer, Window window, std::size_t bytes) {
  const MutexLock lock(mutex_);
  const auto found = peers_.find({peer, window.heap});
  if (found == peers_.end()) {
    return nullptr;
  }
  Peers& heap = found->second;
  if (!heap.is_present) {
    // An operation uses all of a heap sooner or later: one call instead of a fault for every page.
    heap.memory->populate();
    heap.is_present = true;
  }
  const std::span<std::byte> memory = heap.memory->bytes();
  const bool is_inside = window.offset <= memory.size() && bytes <= memory.size() - window.offset;
  return is_inside ? std::shared_ptr<std::byte>(heap.memory, memory.data() + window.offset)
                   : nullptr;
}

}  // namespace trainyard::comm
