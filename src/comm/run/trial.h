// SPDX-License-Identifier: Apache-2.0
// One collective with inputs that follow from a seed, and what must come out of it by a plain
// computation over all ranks' inputs. Values are small integers, so that sums are exact in every
// dtype and any order. For tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "comm/combine/reference.h"
#include "comm/communicator.h"

namespace trainyard::comm {

struct Trial {
  OpKind kind = OpKind::kAllReduce;
  DType dtype = DType::kF32;
  ReduceOp reduce = ReduceOp::kSum;
  // Elements as in Signature; of gather, scatter and all-to-all: for each rank.
  std::uint64_t count = 0;
  std::int32_t root = 0;
  bool in_place = false;
  bool uneven = false;
  bool registered = false;  // in memory that all ranks map
  std::optional<Algorithm> algorithm = std::nullopt;
  std::uint64_t seed = 1;
};

std::string to_string(const Trial& trial);
bool is_reduction(OpKind kind);

// A trial as one rank sees it: makes the buffers, and judges them afterwards.
class TrialRun {
 public:
  TrialRun(const Trial& trial, Communicator& communicator);

  Operation operation() const;
  std::string verify() const;  // empty, or what is wrong

 private:
  bool is_root() const { return trial_.root == rank_; }
  bool is_rooted() const;
  // Elements of a rank, and of all before it, where each has a part of the whole.
  std::uint64_t part(std::int32_t rank) const;
  std::uint64_t before(std::int32_t rank) const;
  // All-to-all: elements that one rank sends to another, and to all before that.
  std::uint64_t exchanged(std::int32_t from, std::int32_t to) const;
  std::uint64_t exchanged_before(std::int32_t from, std::int32_t to) const;
  std::uint64_t input_elements(std::int32_t rank) const;
  std::uint64_t output_elements() const;
  // In place: where each lies in the common memory, in bytes.
  std::size_t input_shift() const;
  std::size_t output_shift() const;

  reference::Bytes input_of(std::int32_t rank) const;
  void put(std::byte* at, int number) const;
  reference::Bytes slice_of(std::int32_t rank, std::uint64_t offset, std::uint64_t length) const;
  reference::Bytes expected() const;
  reference::Bytes gathered() const;
  reference::Bytes reduced() const;

  Trial trial_;
  std::int32_t rank_;
  std::int32_t size_;
  std::size_t element_;
  std::shared_ptr<std::byte[]> memory_;
  std::span<const std::byte> input_;
  std::span<std::byte> output_;
};

}  // namespace trainyard::comm
