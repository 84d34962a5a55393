// SPDX-License-Identifier: Apache-2.0
#include "comm/run/trial.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace trainyard::comm {

std::string to_string(const Trial& trial) {
  return fmt::format("{} {} {} of {}, root {}{}{}{} by {}, seed {}", name_of(trial.kind),
                     name_of(trial.dtype), name_of(trial.reduce), trial.count, trial.root,
                     trial.in_place ? ", in place" : "", trial.uneven ? ", uneven" : "",
                     trial.registered ? ", registered" : "",
                     trial.algorithm ? name_of(*trial.algorithm) : "choice", trial.seed);
}

bool is_reduction(OpKind kind) {
  return kind == OpKind::kAllReduce || kind == OpKind::kReduce || kind == OpKind::kReduceScatter;
}

TrialRun::TrialRun(const Trial& trial, Communicator& communicator)
    : trial_(trial),
      rank_(communicator.rank()),
      size_(communicator.size()),
      element_(size_of(trial.dtype)) {
  const reference::Bytes values = input_of(rank_);
  const std::size_t in = values.size();
  const std::size_t out = output_elements() * element_;
  const std::size_t bytes =
      std::max<std::size_t>(trial_.in_place ? std::max(in, out) : in + out, 1);
  memory_ = trial_.registered ? communicator.allocate(bytes).value()
                              : std::make_shared<std::byte[]>(bytes);
  std::byte* input = memory_.get() + (trial_.in_place ? input_shift() : 0);
  input_ = {input, in};
  output_ = {memory_.get() + (trial_.in_place ? output_shift() : in), out};
  std::fill(output_.begin(), output_.end(), std::byte{0x5a});
  std::copy(values.begin(), values.end(), input);
}

Operation TrialRun::operation() const {
  Operation operation{.kind = trial_.kind,
                      .dtype = trial_.dtype,
                      .reduce = is_reduction(trial_.kind) ? trial_.reduce : ReduceOp::kNone,
                      .input = input_,
                      .output = output_,
                      .root = is_rooted() ? trial_.root : -1,
                      .counts = {},
                      .receive_counts = {},
                      .timeout = std::nullopt,
                      .algorithm = trial_.algorithm};
  if (trial_.uneven) {
    for (std::int32_t r = 0; r < size_; ++r) {
      const bool is_exchange = trial_.kind == OpKind::kAllToAll;
      operation.counts.push_back(is_exchange ? exchanged(rank_, r) : part(r));
      if (is_exchange) {
        operation.receive_counts.push_back(exchanged(r, rank_));
      }
    }
  }
  return operation;
}

std::string TrialRun::verify() const {
  const reference::Bytes wanted = expected();
  if (wanted.size() != output_.size()) {
    return fmt::format("{}: {} bytes instead of {}", to_string(trial_), output_.size(),
                       wanted.size());
  }
  const auto [got, want] = std::mismatch(output_.begin(), output_.end(), wanted.begin());
  if (got == output_.end()) {
    return "";
  }
  return fmt::format("{}: rank {} of {} has {:#x} instead of {:#x} in byte {}", to_string(trial_),
                     rank_, size_, static_cast<int>(*got), static_cast<int>(*want),
                     got - output_.begin());
}

bool TrialRun::is_rooted() const {
  return trial_.kind == OpKind::kBroadcast || trial_.kind == OpKind::kReduce ||
         trial_.kind == OpKind::kGather || trial_.kind == OpKind::kScatter;
}

std::uint64_t TrialRun::part(std::int32_t rank) const {
  const auto r = static_cast<std::uint64_t>(rank);
  if (trial_.kind == OpKind::kGather || trial_.kind == OpKind::kScatter) {
    return trial_.count;
  }
  return trial_.uneven
             ? trial_.count * ((r * 3 + trial_.seed) % 4)
             : part_of(Region::kInput, trial_.count, static_cast<std::uint64_t>(size_), r).length;
}

std::uint64_t TrialRun::before(std::int32_t rank) const {
  std::uint64_t sum = 0;
  for (std::int32_t r = 0; r < rank; ++r) {
    sum += part(r);
  }
  return sum;
}

std::uint64_t TrialRun::exchanged(std::int32_t from, std::int32_t to) const {
  const auto mix = static_cast<std::uint64_t>(from * 5 + to * 3);
  return trial_.uneven ? trial_.count * ((mix + trial_.seed) % 3) : trial_.count;
}

std::uint64_t TrialRun::exchanged_before(std::int32_t from, std::int32_t to) const {
  std::uint64_t sum = 0;
  for (std::int32_t r = 0; r < to; ++r) {
    sum += exchanged(from, r);
  }
  return sum;
}

std::uint64_t TrialRun::input_elements(std::int32_t rank) const {
  switch (trial_.kind) {
    case OpKind::kAllReduce:
    case OpKind::kReduce:
      return trial_.count;
    case OpKind::kBroadcast:
      return rank == trial_.root ? trial_.count : 0;
    case OpKind::kReduceScatter:
      return before(size_);
    case OpKind::kScatter:
      return rank == trial_.root ? before(size_) : 0;
    case OpKind::kAllGather:
    case OpKind::kGather:
      return part(rank);
    case OpKind::kAllToAll:
      return exchanged_before(rank, size_);
    default:
      return 0;
  }
}

std::uint64_t TrialRun::output_elements() const {
  switch (trial_.kind) {
    case OpKind::kAllReduce:
    case OpKind::kBroadcast:
      return trial_.count;
    case OpKind::kReduce:
      return is_root() ? trial_.count : 0;
    case OpKind::kReduceScatter:
    case OpKind::kScatter:
      return part(rank_);
    case OpKind::kAllGather:
      return before(size_);
    case OpKind::kGather:
      return is_root() ? before(size_) : 0;
    case OpKind::kAllToAll: {
      std::uint64_t sum = 0;
      for (std::int32_t r = 0; r < size_; ++r) {
        sum += exchanged(r, rank_);
      }
      return sum;
    }
    default:
      return 0;
  }
}

std::size_t TrialRun::input_shift() const {
  const bool is_part =
      trial_.kind == OpKind::kAllGather || (trial_.kind == OpKind::kGather && is_root());
  return is_part ? before(rank_) * element_ : 0;
}

std::size_t TrialRun::output_shift() const {
  const bool is_part =
      trial_.kind == OpKind::kReduceScatter || (trial_.kind == OpKind::kScatter && is_root());
  return is_part ? before(rank_) * element_ : 0;
}

// Small numbers, as the dtype holds them; 1 and 2 for products, 0 and 1 for bool.
reference::Bytes TrialRun::input_of(std::int32_t rank) const {
  const std::uint64_t elements = input_elements(rank);
  reference::Bytes bytes(elements * element_);
  for (std::uint64_t i = 0; i < elements; ++i) {
    std::uint64_t mix = (i + 1) * 0x9E3779B97F4A7C15U + static_cast<std::uint64_t>(rank) * 7919 +
                        trial_.seed * 104729;
    mix = (mix ^ (mix >> 31)) * 0xD6E8FEB86659FD93U >> 40;
    int number = static_cast<int>(mix % 4);
    if (trial_.dtype == DType::kBool) {
      number = number == 0 ? 0 : 1;
    } else if (trial_.reduce == ReduceOp::kProduct) {
      number = 1 + number % 2;
    }
    put(bytes.data() + i * element_, number);
  }
  return bytes;
}

void TrialRun::put(std::byte* at, int number) const {
  const auto write = [at](auto value) { std::memcpy(at, &value, sizeof(value)); };
  switch (trial_.dtype) {
    case DType::kF32:
      return write(static_cast<float>(number));
    case DType::kF64:
      return write(static_cast<double>(number));
    case DType::kBF16:
      return write(reference::Brain::narrow(static_cast<float>(number)));
    case DType::kF16:
      return write(reference::Half::narrow(static_cast<float>(number)));
    case DType::kI16:
      return write(static_cast<std::int16_t>(number));
    case DType::kI32:
      return write(static_cast<std::int32_t>(number));
    case DType::kI64:
      return write(static_cast<std::int64_t>(number));
    default:
      return write(static_cast<std::uint8_t>(number));
  }
}

reference::Bytes TrialRun::slice_of(std::int32_t rank, std::uint64_t offset,
                                    std::uint64_t length) const {
  const reference::Bytes whole = input_of(rank);
  const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(offset * element_);
  return {begin, begin + static_cast<std::ptrdiff_t>(length * element_)};
}

reference::Bytes TrialRun::expected() const {
  if (output_.empty()) {
    return {};
  }
  switch (trial_.kind) {
    case OpKind::kBroadcast:
      return input_of(trial_.root);
    case OpKind::kScatter:
      return slice_of(trial_.root, before(rank_), part(rank_));
    case OpKind::kAllGather:
    case OpKind::kGather:
    case OpKind::kAllToAll:
      return gathered();
    default:
      return reduced();
  }
}

reference::Bytes TrialRun::gathered() const {
  reference::Bytes all;
  for (std::int32_t r = 0; r < size_; ++r) {
    const reference::Bytes one = trial_.kind == OpKind::kAllToAll
                                     ? slice_of(r, exchanged_before(r, rank_), exchanged(r, rank_))
                                     : input_of(r);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

reference::Bytes TrialRun::reduced() const {
  const bool is_part = trial_.kind == OpKind::kReduceScatter;
  std::vector<reference::Bytes> operands;
  for (std::int32_t r = 0; r < size_; ++r) {
    operands.push_back(is_part ? slice_of(r, before(rank_), part(rank_)) : input_of(r));
  }
  Combine how{.op = trial_.reduce, .dtype = trial_.dtype};
  if (trial_.reduce == ReduceOp::kAverage) {
    how.scale = 1.0 / size_;
    how.divisor = size_;
  }
  return reference::combine(how, operands);
}

}  // namespace trainyard::comm
