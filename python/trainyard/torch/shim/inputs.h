// SPDX-License-Identifier: Apache-2.0
// What a wrapped backend is not asked for, on the CPU: what it would refuse on one rank only, after
// all have agreed on the operation, and what Gloo takes and gets wrong. ValueError, before anything
// is sent, as from yard. Other devices' backends check for themselves.
#pragma once

#include <algorithm>
#include <string>

#include "guard.h"
#include "tasks.h"
#include "tensors.h"

namespace trainyard::torch_shim {

inline bool are_on_cpu(const Tensors& tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [](const at::Tensor& one) { return !one.defined() || one.device().is_cpu(); });
}

inline void check_in_place(const Tensors& tensors, const std::string& name) {
  for (const at::Tensor& tensor : are_on_cpu(tensors) ? tensors : Tensors()) {
    changed(tensor, name);
  }
}

// The reduction, as ranks compare it; YARD_NONE for what only NCCL has, on its devices.
inline yard_reduce check_reduction(const Tensors& tensors, const c10d::ReduceOp& op,
                                   const std::string& name) {
  if (!are_on_cpu(tensors)) {
    return op.op_ == c10d::ReduceOp::PREMUL_SUM ? YARD_NONE : reduction_of(op, name);
  }
  const yard_reduce reduce = reduction_of(op, name);
  const bool is_bitwise = reduce == YARD_BIT_AND || reduce == YARD_BIT_OR || reduce == YARD_BIT_XOR;
  for (const at::Tensor& tensor : tensors) {
    require_usable(tensor, name);
    reduced_element(tensor, name);
    require(
        !is_bitwise || !tensor.is_floating_point(),
        name + ": bitwise reductions are not defined for " + std::string(tensor.dtype().name()));
  }
  return reduce;
}

// `peer` is -1 where nobody knows it.
inline Description describe_one_sided(c10d::OpType type, const Tensors& tensors, int peer,
                                      int tag) {
  const bool is_send = type == c10d::OpType::SEND;
  check_in_place(tensors, is_send ? "send" : "recv");
  return describe({.type = type,
                   .what = {.kind = is_send ? YARD_SEND : YARD_RECEIVE,
                            .dtype = YARD_U8,
                            .root = peer,
                            .tag = static_cast<std::uint32_t>(tag)}},
                  tensors);
}

inline const Tensors& check_list(const std::vector<Tensors>& lists, int size,
                                 const std::string& name) {
  require(lists.size() == 1, name + ": wants one list");
  return list_of_all(lists.front(), size, name);
}

}  // namespace trainyard::torch_shim
