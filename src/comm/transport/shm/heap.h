// SPDX-License-Identifier: Apache-2.0
// Buffers that the ranks of a host map into each other: a heap is one allocation, made by one rank,
// mapped by the others when they first need it. The registry of a communicator knows which heaps
// there are; the control part passes their descriptors and tells it (from its own thread), the
// transport asks it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/mutex.h"
#include "base/result.h"
#include "comm/transport/shm/shared_memory.h"
#include "comm/transport/transport.h"

namespace trainyard::comm {

class HeapRegistry {
 public:
  struct Made {
    std::uint64_t heap = 0;  // its number among this rank's heaps, from 1
    int fd = -1;             // to pass to the peers; open as long as the heap is registered
    std::shared_ptr<SharedMemory> memory;  // whole pages, zero, not present until touched
  };

  // A heap of this rank. kInvalidArgument for 0 bytes, kExhausted without memory.
  Result<Made> make(std::size_t bytes);
  // After that no operation finds it. The memory stays as long as someone holds it.
  void forget(std::uint64_t heap);

  // A heap of the rank `peer`, not yet mapped; replaces one of the same number.
  void add_peers(std::int32_t peer, std::uint64_t heap, Fd fd);
  // Unmaps it: the peer has said that it uses it no more.
  void forget_peers(std::int32_t peer, std::uint64_t heap);

  // As Transport says. map() gives null while the heap is not known, for a window outside of it,
  // and when it cannot be mapped. The address is valid until forget_peers.
  Window window_of(std::span<const std::byte> bytes) const;
  std::byte* map(std::int32_t peer, Window window, std::size_t bytes);

 private:
  struct Peers {
    Fd fd;  // until it is mapped
    std::unique_ptr<SharedMemory> memory;
  };

  mutable Mutex mutex_;
  std::uint64_t last_ GUARDED_BY(mutex_) = 0;
  std::map<const std::byte*, Made> own_ GUARDED_BY(mutex_);  // by address
  std::map<std::pair<std::int32_t, std::uint64_t>, Peers> peers_ GUARDED_BY(mutex_);
};

}  // namespace trainyard::comm
