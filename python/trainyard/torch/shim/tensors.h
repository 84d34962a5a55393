// SPDX-License-Identifier: Apache-2.0
// Tensors as the library's bytes: what can be used where it lies, what needs a copy, and what is
// refused.
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "base.h"
#include "work.h"

namespace trainyard::torch_shim {

using Tensors = std::vector<at::Tensor>;

inline std::optional<yard_dtype> known_dtype(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return YARD_F32;
    case at::kDouble:
      return YARD_F64;
    case at::kBFloat16:
      return YARD_BF16;
    case at::kHalf:
      return YARD_F16;
    case at::kChar:
      return YARD_I8;
    case at::kShort:
      return YARD_I16;
    case at::kInt:
      return YARD_I32;
    case at::kLong:
      return YARD_I64;
    case at::kByte:
      return YARD_U8;
    case at::kBool:
      return YARD_BOOL;
    default:
      return std::nullopt;
  }
}

// How a tensor's elements travel; what is only moved may have any dtype, as bytes.
struct Element {
  yard_dtype dtype = YARD_U8;
  std::uint64_t units = 1;  // of that dtype, for each element
};

inline Element moved_element(const at::Tensor& tensor) {
  const auto known = known_dtype(tensor.scalar_type());
  return known ? Element{*known, 1}
               : Element{YARD_U8, static_cast<std::uint64_t>(tensor.element_size())};
}

inline Element reduced_element(const at::Tensor& tensor, const std::string& name) {
  const auto known = known_dtype(tensor.scalar_type());
  require(known.has_value(), name + ": cannot reduce " + std::string(tensor.dtype().name()) +
                                 "; float32, float64, bfloat16, float16, int8 to int64, uint8 and "
                                 "bool can be");
  return {*known, 1};
}

inline yard_reduce reduction_of(const c10d::ReduceOp& op, const std::string& name) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      return YARD_SUM;
    case c10d::ReduceOp::AVG:
      return YARD_AVERAGE;
    case c10d::ReduceOp::PRODUCT:
      return YARD_PRODUCT;
    case c10d::ReduceOp::MIN:
      return YARD_MIN;
    case c10d::ReduceOp::MAX:
      return YARD_MAX;
    case c10d::ReduceOp::BAND:
      return YARD_BIT_AND;
    case c10d::ReduceOp::BOR:
      return YARD_BIT_OR;
    case c10d::ReduceOp::BXOR:
      return YARD_BIT_XOR;
    default:
      fail(YARD_INVALID_ARGUMENT,
           name + ": this reduction (PREMUL_SUM, perhaps) is only NCCL's; multiply before a SUM");
  }
}

inline void require_usable(const at::Tensor& tensor, const std::string& name) {
  require(tensor.defined(), name + ": a tensor is not defined");
  require(tensor.device().is_cpu(), name + ": the tensor is on " + tensor.device().str() +
                                        "; the backend is for tensors of the CPU (for GPUs: "
                                        "cuda:yard+nccl)");
  require(tensor.layout() == at::kStrided,
          name + ": sparse tensors are not supported; use to_dense()");
}

// Where results are written must be one piece of memory in the order of the elements.
inline const at::Tensor& writable(const at::Tensor& tensor, const std::string& name) {
  require_usable(tensor, name);
  require(tensor.is_contiguous(),
          name + ": the tensor is not contiguous; use contiguous(), and copy the result back");
  return tensor;
}

// The same memory in and out: the order of the elements is the ranks' own affair.
inline const at::Tensor& changed(const at::Tensor& tensor, const std::string& name) {
  require_usable(tensor, name);
  return tensor.is_contiguous(tensor.suggest_memory_format()) ? tensor : writable(tensor, name);
}

// What is only read is copied when it is not contiguous.
inline at::Tensor readable(const at::Tensor& tensor, const std::string& name) {
  require_usable(tensor, name);
  return tensor.contiguous();
}

inline const at::Tensor& only_one(const Tensors& tensors, const std::string& name) {
  require(tensors.size() == 1, name + ": wants one tensor, not " + std::to_string(tensors.size()));
  return tensors.front();
}

inline void set_input(Task& task, const at::Tensor& tensor) {
  task.operation.input = tensor.data_ptr();
  task.operation.input_bytes = tensor.nbytes();
  task.keep.push_back(tensor);
}

inline void set_output(Task& task, const at::Tensor& tensor) {
  task.operation.output = tensor.data_ptr();
  task.operation.output_bytes = tensor.nbytes();
  task.keep.push_back(tensor);
}

// Copies without PyTorch's threads: this may run on a helper's.
inline void copy_elements(const at::Tensor& to, const at::Tensor& from) {
  if (to.is_contiguous() && from.is_contiguous() && to.scalar_type() == from.scalar_type()) {
    if (to.nbytes() > 0) {
      std::memcpy(to.data_ptr(), from.data_ptr(), to.nbytes());
    }
    return;
  }
  const at::NoGradGuard guard;
  to.copy_(from);
}

inline bool follow_one_another(const Tensors& tensors) {
  const auto* next = static_cast<const std::byte*>(tensors.front().data_ptr());
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.is_contiguous() || tensor.data_ptr() != next) {
      return false;
    }
    next += tensor.nbytes();
  }
  return true;
}

// One flat tensor in place of several: a view of theirs when they follow one another in memory, or
// a new one of the same bytes.
struct Joined {
  at::Tensor flat;
  bool is_view = false;
};

inline Joined join_tensors(const Tensors& tensors, const std::string& name) {
  std::int64_t elements = 0;
  for (const at::Tensor& tensor : tensors) {
    require_usable(tensor, name);
    require(tensor.scalar_type() == tensors.front().scalar_type(),
            name + ": the tensors of a list have different dtypes");
    elements += tensor.numel();
  }
  if (follow_one_another(tensors)) {
    const auto& first = tensors.front();
    return {at::from_blob(
                first.data_ptr(), {elements}, [keep = tensors](void*) {},
                first.options().requires_grad(false)),
            true};
  }
  return {at::empty({elements}, tensors.front().options().requires_grad(false)), false};
}

inline void each_part(const at::Tensor& flat, const Tensors& tensors,
                      const std::function<void(const at::Tensor&, const at::Tensor&)>& body) {
  std::int64_t at = 0;
  for (const at::Tensor& tensor : tensors) {
    const at::NoGradGuard guard;
    body(flat.narrow(0, at, tensor.numel()).view(tensor.sizes()), tensor);
    at += tensor.numel();
  }
}

inline at::Tensor joined_input(const Tensors& tensors, const std::string& name) {
  Joined joined = join_tensors(tensors, name);
  if (!joined.is_view) {
    each_part(joined.flat, tensors,
              [](const auto& part, const auto& own) { copy_elements(part, own); });
  }
  return joined.flat;
}

// The task's output; copied to the tensors at its end when they lie elsewhere.
inline void set_joined_output(Task& task, const Tensors& tensors, const std::string& name) {
  Joined joined = join_tensors(tensors, name);
  set_output(task, joined.flat);
  if (!joined.is_view) {
    task.finish = [flat = joined.flat, tensors] {
      each_part(flat, tensors, [](const auto& part, const auto& own) { copy_elements(own, part); });
    };
  }
}

inline bool are_equal(const Tensors& tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [&](const at::Tensor& one) { return one.numel() == tensors.front().numel(); });
}

inline std::vector<std::uint64_t> counts_of(const Tensors& tensors, std::uint64_t units) {
  std::vector<std::uint64_t> counts;
  for (const at::Tensor& tensor : tensors) {
    counts.push_back(static_cast<std::uint64_t>(tensor.numel()) * units);
  }
  return counts;
}

}  // namespace trainyard::torch_shim
