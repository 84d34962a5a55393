// SPDX-License-Identifier: Apache-2.0
// Buffers for the messages of one endpoint, of few sizes, so that they are used again: each holds
// a header and, on a border of a cache line, the payload.
//
//   0           32                 64
//   +-----------+------------------+--------------------------+
//   | (nothing) | header           | payload                  |
//   +-----------+------------------+--------------------------+
//               |---- what is sent: header and payload -------|
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "comm/transport/fabric/endpoint.h"
#include "comm/transport/tcp/header.h"

namespace trainyard::comm {

class MessageBuffer {
 public:
  explicit MessageBuffer(FabricMemory memory) : memory_(memory) {}

  std::span<std::byte, kHeaderBytes> header() const {
    return memory_.bytes.subspan<kBefore, kHeaderBytes>();
  }
  std::span<std::byte> payload(std::size_t bytes) const {
    return memory_.bytes.subspan(kBefore + kHeaderBytes, bytes);
  }
  // As it travels.
  FabricMemory message(std::size_t payload_bytes) const {
    return {.bytes = memory_.bytes.subspan(kBefore, kHeaderBytes + payload_bytes),
            .description = memory_.description};
  }
  static constexpr std::size_t kOverhead = 64;

 private:
  static constexpr std::size_t kBefore = kOverhead - kHeaderBytes;
  FabricMemory memory_;
};

class BufferPool {
 public:
  // At its end, given back to the pool.
  using Lease = std::shared_ptr<MessageBuffer>;

  // The endpoint outlives it, and it all leases.
  BufferPool(FabricEndpoint& endpoint, std::size_t max_payload)
      : endpoint_(endpoint), max_payload_(max_payload) {}

  Result<Lease> take(std::size_t payload);
  // Payloads of what is leased, and Transport::kMessageCost for each.
  std::size_t in_use() const { return in_use_; }

 private:
  // Buffers of kLeast << 4n bytes, which are whole pages, and of the longest.
  static constexpr std::size_t kLeast = 4096;
  std::size_t capacity(std::size_t kind) const;

  FabricEndpoint& endpoint_;
  std::size_t max_payload_;
  std::vector<std::unique_ptr<MessageBuffer>> all_;
  std::array<std::vector<MessageBuffer*>, 3> free_;
  std::size_t in_use_ = 0;
};

}  // namespace trainyard::comm
