// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/fabric/pool.h"

#include <algorithm>

namespace trainyard::comm {

std::size_t BufferPool::capacity(std::size_t kind) const {
  const std::size_t whole = (kLeast << (4 * kind)) - MessageBuffer::kOverhead;
  return kind + 1 == free_.size() ? max_payload_ : std::min(whole, max_payload_);
}

Result<BufferPool::Lease> BufferPool::take(std::size_t payload) {
  std::size_t kind = 0;
  while (capacity(kind) < payload) {
    ++kind;
  }
  std::vector<MessageBuffer*>& free = free_[kind];
  if (free.empty()) {
    YARD_TRY(const FabricMemory memory,
             endpoint_.allocate(MessageBuffer::kOverhead + capacity(kind)));
    all_.push_back(std::make_unique<MessageBuffer>(memory));
    free.push_back(all_.back().get());
  }
  MessageBuffer* taken = free.back();
  free.pop_back();
  const std::size_t cost = payload + Transport::kMessageCost;
  in_use_ += cost;
  return Lease(taken, [this, &free, cost](MessageBuffer* buffer) {
    in_use_ -= cost;
    free.push_back(buffer);
  });
}

}  // namespace trainyard::comm
