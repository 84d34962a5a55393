// SPDX-License-Identifier: Apache-2.0
// Buffers that the ranks of a host map into each other: a heap is one allocation, made by one rank
// and mapped by the others. The registry of a communicator knows which heaps there are; the control
// part passes their descriptors and tells it (from its own thread), the transports ask it.
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

  // A heap of this rank. kInvalidArgument for 0 bytes. kExhausted without memory, and when half of
  // the descriptors that this process may have are in use: each heap keeps one, and what comes from
  // peers needs some.
  Result<Made> make(std::size_t bytes);
  // After that no operation finds it. The memory stays as long as someone holds it.
  void forget(std::uint64_t heap);

  // After a fault, before anyone has buffers back: this process leaves its heaps to the peers, who
  // may still read and write what was under way there. Its memory stays where it is and holds what
  // it held, but is private now, and no operation finds it. From any thread. The first error, when
  // a heap stays shared.
  Result<void> withdraw();

  // Maps a heap of the rank `peer`; replaces one of the same number. kInvalidArgument when it is no
  // memory of a fixed size, kExhausted when it cannot be mapped.
  Result<void> add_peers(std::int32_t peer, std::uint64_t heap, Fd fd);
  // The peer has said that it uses it no more: unmapped once nobody here holds any of it.
  void forget_peers(std::int32_t peer, std::uint64_t heap);

  Window window_of(std::span<const std::byte> bytes) const;  // as Transport says
  // Null while the heap is not known, and for a window outside of it. Whoever holds the address
  // keeps the memory mapped, for its owner may forget it while others are still at it.
  std::shared_ptr<std::byte> map(std::int32_t peer, Window window, std::size_t bytes);

 private:
  struct Peers {
    std::shared_ptr<SharedMemory> memory;
    bool is_present = false;  // its pages are
  };

  mutable Mutex mutex_;
  std::uint64_t last_ GUARDED_BY(mutex_) = 0;
  bool is_withdrawn_ GUARDED_BY(mutex_) = false;
  std::map<const std::byte*, Made> own_ GUARDED_BY(mutex_);  // by address
  std::map<std::pair<std::int32_t, std::uint64_t>, Peers> peers_ GUARDED_BY(mutex_);
};

}  // namespace trainyard::comm
