// SPDX-License-Identifier: Apache-2.0
#include "comm/fusion/packer.h"

#include <algorithm>

#include "base/check.h"

namespace trainyard::comm {

std::vector<Stretch> Packer::add(std::uint64_t elements) {
  YARD_CHECK(capacity_ > 0, "buffers of nothing");
  std::vector<Stretch> stretches;
  for (std::uint64_t at = 0; at < elements;) {
    const std::uint64_t length = std::min(elements - at, capacity_ - filled_);
    stretches.push_back({.gradient = gradient_,
                         .in_gradient = at,
                         .buffer = buffer_,
                         .in_buffer = filled_,
                         .length = length});
    at += length;
    filled_ += length;
    if (filled_ == capacity_) {
      close();
    }
  }
  ++gradient_;
  return stretches;
}

void Packer::close() {
  buffer_ += filled_ > 0 ? 1 : 0;
  filled_ = 0;
}

FusionPlan plan_fusion(std::span<const std::uint64_t> gradients, std::uint64_t capacity) {
  FusionPlan plan;
  Packer packer(capacity);
  for (const std::uint64_t elements : gradients) {
    for (const Stretch& stretch : packer.add(elements)) {
      plan.stretches.push_back(stretch);
      plan.buffers.resize(stretch.buffer + 1);
      plan.buffers.back() += stretch.length;
    }
  }
  return plan;
}

}  // namespace trainyard::comm
