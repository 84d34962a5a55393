// SPDX-License-Identifier: Apache-2.0
// From the tensors of one c10d call to a Task of the library. Refuses what cannot be described;
// sizes that do not fit each other are the library's to refuse.
#pragma once

#include <string>
#include <vector>

#include "tensors.h"
#include "work.h"

namespace trainyard::torch_shim {

inline void require_same_dtype(const at::Tensor& output, const at::Tensor& input,
                               const std::string& name) {
  require(output.scalar_type() == input.scalar_type(),
          name + ": input and output have different dtypes");
}

inline const Tensors& list_of_all(const Tensors& list, int size, const std::string& name) {
  require(list.size() == static_cast<std::size_t>(size),
          name + ": the list has " + std::to_string(list.size()) + " tensors, but there are " +
              std::to_string(size) + " ranks");
  return list;
}

// The list of a gather or a scatter, whose tensors are all as long as the rank's own.
inline const Tensors& equal_list(const Tensors& list, const at::Tensor& own, int size,
                                 const std::string& name) {
  for (const at::Tensor& tensor : list_of_all(list, size, name)) {
    require(tensor.numel() == own.numel(),
            name + ": the list has a tensor of " + std::to_string(tensor.numel()) +
                " elements, but this rank's own has " + std::to_string(own.numel()) +
                "; all must be of one size");
  }
  return list;
}

inline std::vector<Task> one(Task task) {
  std::vector<Task> tasks;
  tasks.push_back(std::move(task));
  return tasks;
}

inline Task moving(yard_kind kind, const at::Tensor& like, int root) {
  require_usable(like, "the operation");
  return {.operation = {.kind = kind, .dtype = moved_element(like).dtype, .root = root}};
}

inline Task reducing(const std::string& name, const at::Tensor& tensor, const c10d::ReduceOp& op) {
  changed(tensor, name);
  Task task{.operation = {.kind = YARD_ALL_REDUCE,
                          .dtype = reduced_element(tensor, name).dtype,
                          .reduce = reduction_of(op, name),
                          .root = -1}};
  set_output(task, tensor);
  return task;
}

inline void require_whole(const at::Tensor& whole, const at::Tensor& part, int size,
                          const std::string& name) {
  require(whole.numel() == part.numel() * size,
          name + ": the tensor of all ranks has " + std::to_string(whole.numel()) +
              " elements, but should have " + std::to_string(part.numel()) + " for each of " +
              std::to_string(size) + " ranks");
}

inline Task gathering_flat(const at::Tensor& output, const at::Tensor& input, int size) {
  const std::string name = "all_gather";
  require_whole(output, input, size, name);
  require_same_dtype(output, input, name);
  const at::Tensor from = readable(input, name);
  Task task = moving(YARD_ALL_GATHER, from, -1);
  set_input(task, from);
  set_output(task, writable(output, name));
  return task;
}

inline Task gathering(std::vector<Tensors>& outputs, Tensors& inputs, int size) {
  const std::string name = "all_gather";
  require(outputs.size() == 1, name + ": wants one list");
  const Tensors& parts = list_of_all(outputs.front(), size, name);
  const at::Tensor from = readable(only_one(inputs, name), name);
  require_same_dtype(parts.front(), from, name);
  Task task = moving(YARD_ALL_GATHER, from, -1);
  set_input(task, from);
  set_joined_output(task, parts, name);
  if (!are_equal(parts)) {
    task.counts = counts_of(parts, moved_element(from).units);
  }
  return task;
}

inline Task scattering(const at::Tensor& output, const at::Tensor& input,
                       const c10d::ReduceOp& op) {
  const std::string name = "reduce_scatter";
  require_same_dtype(output, input, name);
  const at::Tensor from = readable(input, name);
  Task task{.operation = {.kind = YARD_REDUCE_SCATTER,
                          .dtype = reduced_element(from, name).dtype,
                          .reduce = reduction_of(op, name),
                          .root = -1}};
  set_input(task, from);
  set_output(task, writable(output, name));
  return task;
}

// Elements for each rank, from rows; without splits, the same for each.
inline std::vector<std::uint64_t> split_counts(const at::Tensor& tensor,
                                               const std::vector<std::int64_t>& splits, int size,
                                               const std::string& name) {
  const std::int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  const std::uint64_t row = rows == 0 ? 0 : static_cast<std::uint64_t>(tensor.numel() / rows);
  const std::uint64_t units = moved_element(tensor).units;
  if (splits.empty()) {
    require(rows % size == 0, name + ": " + std::to_string(rows) +
                                  " rows cannot be split evenly over the ranks; give splits");
    return std::vector<std::uint64_t>(static_cast<std::size_t>(size),
                                      static_cast<std::uint64_t>(rows / size) * row * units);
  }
  std::int64_t sum = 0;
  std::vector<std::uint64_t> counts;
  for (const std::int64_t split : splits) {
    require(split >= 0, name + ": a split is negative");
    counts.push_back(static_cast<std::uint64_t>(split) * row * units);
    sum += split;
  }
  require(sum == rows && splits.size() == static_cast<std::size_t>(size),
          name + ": the splits must be one for each rank, and sum to the rows of the tensor");
  return counts;
}

inline constexpr std::size_t kPackedBytes = std::size_t{128} << 10;

// Small tensors cost more as operations than as copies.
inline bool is_worth_packing(const Tensors& tensors) {
  std::size_t bytes = 0;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.device().is_cpu() || tensor.layout() != at::kStrided || !tensor.is_contiguous() ||
        tensor.scalar_type() != tensors.front().scalar_type()) {
      return false;
    }
    bytes += tensor.nbytes();
  }
  return tensors.size() > 1 && bytes / tensors.size() < kPackedBytes;
}

}  // namespace trainyard::torch_shim
