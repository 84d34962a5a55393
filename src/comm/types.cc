// SPDX-License-Identifier: Apache-2.0
#include "comm/types.h"

#include <fmt/format.h>

namespace trainyard::comm {

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "float32";
    case DType::kF64:
      return "float64";
    case DType::kBF16:
      return "bfloat16";
    case DType::kF16:
      return "float16";
    case DType::kI8:
      return "int8";
    case DType::kI16:
      return "int16";
    case DType::kI32:
      return "int32";
    case DType::kI64:
      return "int64";
    case DType::kU8:
      return "uint8";
    case DType::kBool:
      return "bool";
  }
  return "unknown dtype";
}

std::string_view name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::kNone:
      return "none";
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kProduct:
      return "product";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kAverage:
      return "average";
    case ReduceOp::kBitAnd:
      return "bitwise and";
    case ReduceOp::kBitOr:
      return "bitwise or";
    case ReduceOp::kBitXor:
      return "bitwise xor";
  }
  return "unknown reduction";
}

std::string_view name_of(OpKind kind) {
  switch (kind) {
    case OpKind::kBarrier:
      return "barrier";
    case OpKind::kAllReduce:
      return "all_reduce";
    case OpKind::kReduceScatter:
      return "reduce_scatter";
    case OpKind::kAllGather:
      return "all_gather";
    case OpKind::kBroadcast:
      return "broadcast";
    case OpKind::kReduce:
      return "reduce";
    case OpKind::kGather:
      return "gather";
    case OpKind::kScatter:
      return "scatter";
    case OpKind::kAllToAll:
      return "all_to_all";
    case OpKind::kSend:
      return "send";
    case OpKind::kReceive:
      return "receive";
  }
  return "unknown operation";
}

bool is_supported(ReduceOp op, DType dtype) {
  const bool is_real =
      dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kBF16 || dtype == DType::kF16;
  switch (op) {
    case ReduceOp::kBitAnd:
    case ReduceOp::kBitOr:
    case ReduceOp::kBitXor:
      return !is_real;
    case ReduceOp::kAverage:
      return dtype != DType::kBool;
    default:
      return true;
  }
}

std::string to_string(const Signature& signature) {
  std::string text(name_of(signature.kind));
  if (signature.kind == OpKind::kBarrier) {
    return text;
  }
  const bool is_uneven = (signature.flags & 1) != 0;
  text += is_uneven ? fmt::format(" of uneven counts of {}", name_of(signature.dtype))
                    : fmt::format(" of {} {}", signature.count, name_of(signature.dtype));
  if (signature.reduce != ReduceOp::kNone) {
    text += fmt::format(" ({})", name_of(signature.reduce));
  }
  if (signature.kind == OpKind::kSend || signature.kind == OpKind::kReceive) {
    const bool is_send = signature.kind == OpKind::kSend;
    text += fmt::format(" {} rank {}", is_send ? "to" : "from", signature.root);
  } else if (signature.root >= 0) {
    text += fmt::format(", root {}", signature.root);
  }
  return text;
}

}  // namespace trainyard::comm
