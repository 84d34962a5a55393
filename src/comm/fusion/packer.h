// SPDX-License-Identifier: Apache-2.0
// How gradients become fusion buffers: one after another as they are ready, whatever their sizes,
// cut where a buffer is full. So all buffers but the last are exactly full, and each can leave as
// soon as it is. Between hosts a buffer is cut into equal shares (Algorithm::kBalanced) that know
// nothing of gradients: no host gets more than another (SageMaker's balanced fusion buffers; see
// also "parameter servers" that own whole variables). Values only; fused_all_reduce.h moves bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trainyard::comm {

// A stretch of a gradient in a buffer; all in elements.
struct Stretch {
  std::size_t gradient = 0;       // by order
  std::uint64_t in_gradient = 0;  // where it begins there,
  std::size_t buffer = 0;
  std::uint64_t in_buffer = 0;  // and there
  std::uint64_t length = 0;

  bool operator==(const Stretch&) const = default;
};

class Packer {
 public:
  // Elements of a full buffer, at least 1.
  explicit Packer(std::uint64_t capacity) : capacity_(capacity) {}

  // Where the next gradient goes: no stretch for an empty one.
  std::vector<Stretch> add(std::uint64_t elements);
  // What follows begins a new buffer, unless this one is empty.
  void close();

  std::size_t buffer() const { return buffer_; }  // the one that is filled now
  std::uint64_t filled() const { return filled_; }

 private:
  std::uint64_t capacity_;
  std::size_t gradient_ = 0;
  std::size_t buffer_ = 0;
  std::uint64_t filled_ = 0;  // of capacity_, less than it
};

struct FusionPlan {
  std::vector<Stretch> stretches;      // in the order of gradients, and of buffers
  std::vector<std::uint64_t> buffers;  // elements of each
};
// Of one step.
FusionPlan plan_fusion(std::span<const std::uint64_t> gradients, std::uint64_t capacity);

}  // namespace trainyard::comm
