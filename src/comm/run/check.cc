// SPDX-License-Identifier: Apache-2.0
#include "comm/run/check.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace trainyard::comm {
namespace {

using Bytes = std::span<const std::byte>;

template <typename... Args>
Error wrong(const Operation& operation, fmt::format_string<Args...> text, Args&&... args) {
  return Error{Code::kInvalidArgument, std::string(name_of(operation.kind)) + ": " +
                                           fmt::format(text, std::forward<Args>(args)...)};
}

// What one check needs: the operation, who asks, and the elements of its buffers.
struct Asked {
  Operation& operation;
  std::uint64_t rank;
  std::uint64_t size;
  std::uint64_t element;
  std::uint64_t in;
  std::uint64_t out;
  bool is_root;
};

Result<void> want(const Asked& asked, std::string_view buffer, std::uint64_t has,
                  std::uint64_t wanted) {
  if (has == wanted) {
    return {};
  }
  return wrong(asked.operation, "{} has {} elements of {}, but should have {}", buffer, has,
               name_of(asked.operation.dtype), wanted);
}

bool overlap(Bytes a, Bytes b) {
  return !a.empty() && !b.empty() && a.data() < b.data() + b.size() &&
         b.data() < a.data() + a.size();
}

// In place means: the two buffers share exactly the elements that correspond.
Result<void> check_overlap(const Asked& asked, const std::byte* output_of_input) {
  const Operation& operation = asked.operation;
  if (!overlap(operation.input, operation.output) || output_of_input == operation.output.data()) {
    return {};
  }
  return wrong(operation,
               "input and output overlap without being in place; use separate buffers, or the "
               "same memory for the same elements");
}

std::uint64_t part_length(std::uint64_t count, const Asked& asked) {
  return part_of(Region::kInput, count, asked.size, asked.rank).length;
}

Result<std::uint64_t> sum_of(const Asked& asked, std::string_view field,
                             const std::vector<std::uint64_t>& counts) {
  if (counts.size() != asked.size) {
    return wrong(asked.operation, "{} has {} entries, but there are {} ranks", field, counts.size(),
                 asked.size);
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t count : counts) {
    if (__builtin_add_overflow(sum, count, &sum) || sum > (std::uint64_t{1} << 60)) {
      return wrong(asked.operation, "{} sum to more elements than memory can hold", field);
    }
  }
  return sum;
}

// Where this rank's part lies in the whole buffer, in elements.
std::uint64_t part_offset(std::uint64_t count, const Asked& asked) {
  const std::vector<std::uint64_t>& counts = asked.operation.counts;
  if (counts.empty()) {
    return part_of(Region::kInput, count, asked.size, asked.rank).offset;
  }
  std::uint64_t offset = 0;
  for (std::uint64_t r = 0; r < asked.rank; ++r) {
    offset += counts[r];
  }
  return offset;
}

// The whole buffer `whole` (of `count` elements) and this rank's part of it, as all-gather,
// reduce-scatter, gather and scatter have them.
Result<void> check_part(const Asked& asked, std::string_view part, std::uint64_t part_elements,
                        std::uint64_t count) {
  const bool is_uneven = !asked.operation.counts.empty();
  return want(asked, part, part_elements,
              is_uneven ? asked.operation.counts[asked.rank] : part_length(count, asked));
}

Result<std::uint64_t> whole_count(const Asked& asked, std::string_view whole,
                                  std::uint64_t elements) {
  if (asked.operation.counts.empty()) {
    return elements;
  }
  YARD_TRY(const std::uint64_t sum, sum_of(asked, "counts", asked.operation.counts));
  YARD_TRY(want(asked, whole, elements, sum));
  return sum;
}

Result<std::uint64_t> check_all_reduce(const Asked& asked) {
  Operation& operation = asked.operation;
  if (operation.input.empty()) {
    operation.input = operation.output;
    return asked.out;
  }
  YARD_TRY(want(asked, "input", asked.in, asked.out));
  YARD_TRY(check_overlap(asked, operation.input.data()));
  return asked.out;
}

Result<std::uint64_t> check_broadcast(const Asked& asked) {
  Operation& operation = asked.operation;
  if (!asked.is_root) {
    if (!operation.input.empty() && operation.input.data() != operation.output.data()) {
      return wrong(operation, "only the root, rank {}, has an input; leave it empty elsewhere",
                   operation.root);
    }
    operation.input = operation.output;
    return asked.out;
  }
  if (operation.input.empty()) {
    operation.input = operation.output;
    return asked.out;
  }
  if (!operation.output.empty()) {
    YARD_TRY(want(asked, "output", asked.out, asked.in));
    YARD_TRY(check_overlap(asked, operation.input.data()));
  }
  return asked.in;
}

Result<std::uint64_t> check_reduce(const Asked& asked) {
  const Operation& operation = asked.operation;
  if (asked.is_root) {
    YARD_TRY(want(asked, "output of the root", asked.out, asked.in));
    YARD_TRY(check_overlap(asked, operation.input.data()));
  } else if (asked.out != 0) {
    return wrong(operation, "only the root, rank {}, has an output; leave it empty elsewhere",
                 operation.root);
  }
  return asked.in;
}

Result<std::uint64_t> check_reduce_scatter(const Asked& asked) {
  YARD_TRY(const std::uint64_t count, whole_count(asked, "input", asked.in));
  YARD_TRY(check_part(asked, "output", asked.out, count));
  YARD_TRY(check_overlap(asked,
                         asked.operation.input.data() + part_offset(count, asked) * asked.element));
  return count;
}

Result<std::uint64_t> check_all_gather(const Asked& asked) {
  YARD_TRY(const std::uint64_t count, whole_count(asked, "output", asked.out));
  YARD_TRY(check_part(asked, "input", asked.in, count));
  YARD_TRY(check_overlap(asked,
                         asked.operation.input.data() - part_offset(count, asked) * asked.element));
  return count;
}

// Every rank has a part, only the root has `whole`.
Result<std::uint64_t> check_rooted(const Asked& asked, std::uint64_t part_elements,
                                   std::string_view whole, std::uint64_t whole_elements) {
  const std::uint64_t count = part_elements * asked.size;
  if (asked.is_root) {
    YARD_TRY(want(asked, whole, whole_elements, count));
  } else if (whole_elements != 0) {
    return wrong(asked.operation, "only the root, rank {}, has an {}; leave it empty elsewhere",
                 asked.operation.root, whole);
  }
  return count;
}

Result<std::uint64_t> check_gather(const Asked& asked) {
  YARD_TRY(const std::uint64_t count, check_rooted(asked, asked.in, "output", asked.out));
  YARD_TRY(check_overlap(asked,
                         asked.operation.input.data() - part_offset(count, asked) * asked.element));
  return count;
}

Result<std::uint64_t> check_scatter(const Asked& asked) {
  YARD_TRY(const std::uint64_t count, check_rooted(asked, asked.out, "input", asked.in));
  YARD_TRY(check_overlap(asked,
                         asked.operation.input.data() + part_offset(count, asked) * asked.element));
  return count;
}

Result<std::uint64_t> check_all_to_all(const Asked& asked) {
  const Operation& operation = asked.operation;
  if (overlap(operation.input, operation.output)) {
    return wrong(operation, "input and output overlap; it has no form in place");
  }
  if (!operation.counts.empty() || !operation.receive_counts.empty()) {
    YARD_TRY(const std::uint64_t sent, sum_of(asked, "counts", operation.counts));
    YARD_TRY(const std::uint64_t got, sum_of(asked, "receive_counts", operation.receive_counts));
    YARD_TRY(want(asked, "input", asked.in, sent));
    YARD_TRY(want(asked, "output", asked.out, got));
    if (operation.counts[asked.rank] != operation.receive_counts[asked.rank]) {
      return wrong(operation, "this rank sends {} elements to itself, but receives {}",
                   operation.counts[asked.rank], operation.receive_counts[asked.rank]);
    }
    return sent;
  }
  YARD_TRY(want(asked, "output", asked.out, asked.in));
  if (asked.in % asked.size != 0) {
    return wrong(operation, "{} elements cannot be cut evenly for {} ranks; give counts", asked.in,
                 asked.size);
  }
  return asked.in;
}

Result<std::uint64_t> check_one_sided(const Asked& asked, std::string_view other,
                                      std::uint64_t other_elements, std::uint64_t elements) {
  if (other_elements != 0) {
    return wrong(asked.operation, "it has no {}", other);
  }
  return elements;
}

Result<std::uint64_t> check_kind(const Asked& asked) {
  switch (asked.operation.kind) {
    case OpKind::kBarrier:
      YARD_TRY(want(asked, "input", asked.in, 0));
      YARD_TRY(want(asked, "output", asked.out, 0));
      return 0;
    case OpKind::kAllReduce:
      return check_all_reduce(asked);
    case OpKind::kReduceScatter:
      return check_reduce_scatter(asked);
    case OpKind::kAllGather:
      return check_all_gather(asked);
    case OpKind::kBroadcast:
      return check_broadcast(asked);
    case OpKind::kReduce:
      return check_reduce(asked);
    case OpKind::kGather:
      return check_gather(asked);
    case OpKind::kScatter:
      return check_scatter(asked);
    case OpKind::kAllToAll:
      return check_all_to_all(asked);
    case OpKind::kSend:
      return check_one_sided(asked, "output", asked.out, asked.in);
    case OpKind::kReceive:
      return check_one_sided(asked, "input", asked.in, asked.out);
  }
  return wrong(asked.operation, "kind {} is unknown", static_cast<int>(asked.operation.kind));
}

bool is_rooted(OpKind kind) {
  return kind == OpKind::kBroadcast || kind == OpKind::kReduce || kind == OpKind::kGather ||
         kind == OpKind::kScatter || kind == OpKind::kSend || kind == OpKind::kReceive;
}

bool reduces(OpKind kind) {
  return kind == OpKind::kAllReduce || kind == OpKind::kReduce || kind == OpKind::kReduceScatter;
}

Result<void> check_fields(const Operation& operation, std::int32_t size) {
  if (operation.dtype > DType::kBool) {
    return wrong(operation, "dtype {} is unknown", static_cast<int>(operation.dtype));
  }
  const std::size_t element = size_of(operation.dtype);
  for (const auto& [name, bytes] :
       {std::pair{"input", operation.input.size()}, std::pair{"output", operation.output.size()}}) {
    if (bytes % element != 0) {
      return wrong(operation, "{} has {} bytes, which is no whole number of {} ({} bytes each)",
                   name, bytes, name_of(operation.dtype), element);
    }
  }
  if (is_rooted(operation.kind) && (operation.root < 0 || operation.root >= size)) {
    return wrong(operation, "root or peer {} is no rank; they are 0 to {}", operation.root,
                 size - 1);
  }
  if (reduces(operation.kind)) {
    if (operation.reduce == ReduceOp::kNone) {
      return wrong(operation, "it needs a reduction, for example sum");
    }
    if (!is_supported(operation.reduce, operation.dtype)) {
      return wrong(operation, "{} is not defined for {}", name_of(operation.reduce),
                   name_of(operation.dtype));
    }
  }
  const bool may_be_uneven = operation.kind == OpKind::kAllGather ||
                             operation.kind == OpKind::kReduceScatter ||
                             operation.kind == OpKind::kAllToAll;
  if (!may_be_uneven && !operation.counts.empty()) {
    return wrong(operation, "it has no uneven form; leave counts empty");
  }
  if (operation.kind != OpKind::kAllToAll && !operation.receive_counts.empty()) {
    return wrong(operation, "only all_to_all has receive_counts; leave them empty");
  }
  return {};
}

// Any mix does: it only has to differ when ranks were given different counts.
std::uint64_t hash_of(const std::vector<std::uint64_t>& counts) {
  std::uint64_t hash = counts.size();
  for (const std::uint64_t count : counts) {
    hash = (hash ^ count) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 29;
  }
  return hash;
}

Signature signature_of(const Operation& operation, std::uint64_t count) {
  if (operation.kind == OpKind::kBarrier) {
    return Signature{};
  }
  Signature signature{.kind = operation.kind, .dtype = operation.dtype, .count = count};
  if (reduces(operation.kind)) {
    signature.reduce = operation.reduce;
  }
  if (is_rooted(operation.kind)) {
    signature.root = operation.root;
  }
  if (!operation.counts.empty()) {
    signature.flags = 1;
    signature.count = operation.kind == OpKind::kAllToAll ? 0 : hash_of(operation.counts);
  }
  return signature;
}

}  // namespace

Result<Checked> check(Operation& operation, std::int32_t rank, std::int32_t size) {
  YARD_TRY(check_fields(operation, size));
  const std::size_t element = size_of(operation.dtype);
  const Asked asked{.operation = operation,
                    .rank = static_cast<std::uint64_t>(rank),
                    .size = static_cast<std::uint64_t>(size),
                    .element = element,
                    .in = operation.input.size() / element,
                    .out = operation.output.size() / element,
                    .is_root = operation.root == rank};
  YARD_TRY(const std::uint64_t count, check_kind(asked));
  const Signature signature = signature_of(operation, count);
  return Checked{.request = {.kind = operation.kind,
                             .count = count,
                             .root = signature.root,
                             .counts = operation.counts,
                             .receive_counts = operation.receive_counts},
                 .signature = signature,
                 .bytes = count * element};
}

}  // namespace trainyard::comm
