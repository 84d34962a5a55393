// SPDX-License-Identifier: Apache-2.0
// Reads the private memory of another process of this machine, through the kernel: cross memory
// attach (process_vm_readv(2)). One copy, where shared memory takes two for buffers that do not lie
// in it. The kernel allows it between processes of one pid namespace and one
// user that no security module keeps apart; whether it does is found out, never assumed.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include <sys/types.h>

#include "base/result.h"

namespace trainyard::comm {

// Where a process is, for others that try to read it: they read the token there and compare.
struct MemoryCard {
  std::uint64_t pid_namespace = 0;  // 0: unknown, nobody tries
  std::uint64_t pid = 0;            // in that namespace
  std::uint64_t address = 0;        // of the token
  std::array<std::uint64_t, 2> token = {};
};

// This process, with a token of its own that stays in place as long as this lives.
class OwnMemory {
 public:
  OwnMemory();
  MemoryCard card() const;

 private:
  std::unique_ptr<std::array<std::uint64_t, 2>> token_;
  std::uint64_t pid_namespace_ = 0;
};

// Whether this process can read the memory of the one that showed this card.
bool reaches(const MemoryCard& card);

// Whether the kernel reads the first and the last of these bytes of this process: it does not for
// those of a device, wherever the process may. True for none.
bool is_own_readable(std::span<const std::byte> bytes);

// Exactly so many bytes from `address` of process `pid`. kUnavailable with the system's reason when
// not all of them could be read: the process ended, or gave the memory back.
Result<void> read_memory(pid_t pid, std::uint64_t address, std::span<std::byte> into);

}  // namespace trainyard::comm
