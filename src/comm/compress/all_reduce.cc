// SPDX-License-Identifier: Apache-2.0
#include "comm/compress/all_reduce.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "comm/compress/casts.h"
#include "comm/compress/int8_blocks.h"

namespace trainyard::comm {
namespace {

using Bytes = std::vector<std::byte>;

Operation operation_of(OpKind kind, DType dtype, Timeout timeout) {
  Operation operation;
  operation.kind = kind;
  operation.dtype = dtype;
  operation.timeout = timeout;
  return operation;
}

Error wrong(std::string what) {
  return {Code::kInvalidArgument, "compressed all_reduce: " + std::move(what)};
}

// One all-reduce on its way: its messages, alive while an operation holds it.
struct Narrow {
  DType dtype;
  std::span<float> values;
  float scale;
  Bytes message;

  void encode() { narrow(dtype, values, message, scale); }
  void decode() { widen(dtype, message, values); }
};

struct Int8 {
  std::span<float> values;
  Int8State state;
  std::size_t ranks;
  std::size_t part;     // values of each rank
  std::size_t bytes;    // of a part's message
  Bytes sent = {};      // by part
  Bytes received = {};  // by rank
  Bytes own = {};       // the average of this rank's part
  Bytes averages = {};  // by part
  std::vector<float> sum = {};

  std::span<float> of_part(std::span<float> whole, std::size_t r) const {
    const std::size_t begin = std::min(r * part, whole.size());
    return whole.subspan(begin, std::min(part, whole.size() - begin));
  }
  std::span<std::byte> message(Bytes& all, std::size_t r) const {
    return std::span(all).subspan(r * bytes, bytes);
  }

  // Messages are of whole parts; a shorter one is filled up with zeros.
  void encode_part(std::size_t r) {
    const std::span<float> own_values = of_part(values, r);
    const std::span<float> left = of_part(state.residual, r);
    if (own_values.size() == part) {
      encode_int8(own_values, state.block, left, message(sent, r));
      return;
    }
    std::vector<float> padded(part);
    std::vector<float> padded_left(part);
    std::copy(own_values.begin(), own_values.end(), padded.begin());
    std::copy(left.begin(), left.end(), padded_left.begin());
    encode_int8(padded, state.block, std::span(padded_left), message(sent, r));
    std::copy_n(padded_left.begin(), left.size(), left.begin());
  }
  void encode() {
    for (std::size_t r = 0; r < ranks; ++r) {
      encode_part(r);
    }
  }
  void average() {
    for (std::size_t r = 0; r < ranks; ++r) {
      decode_int8(message(received, r), state.block, r == 0 ? Into::kReplace : Into::kAdd, sum);
    }
    for (float& value : sum) {
      value /= static_cast<float>(ranks);
    }
    encode_int8(sum, state.block, state.owned, own);
  }
  void decode() {
    for (std::size_t r = 0; r < ranks; ++r) {
      decode_int8(message(averages, r), state.block, Into::kReplace, sum);
      const std::span<float> to = of_part(values, r);
      std::copy_n(sum.begin(), to.size(), to.begin());
    }
  }
};

struct DeepGradient {
  std::span<float> values;
  DeepGradientOptions options;
  DeepGradientView state;
  std::size_t ranks;
  std::size_t count;    // of elements that each rank sends
  Bytes sent = {};      // indices, then values
  Bytes received = {};  // by rank

  void encode() {
    const Sparse chosen = compress(options, options.density, values, state);
    std::memcpy(sent.data(), chosen.indices.data(), count * sizeof(std::uint32_t));
    std::memcpy(sent.data() + count * sizeof(std::uint32_t), chosen.values.data(),
                count * sizeof(float));
  }
  void decode() {
    std::fill(values.begin(), values.end(), 0.0F);
    Sparse one{.indices = std::vector<std::uint32_t>(count), .values = std::vector<float>(count)};
    for (std::size_t r = 0; r < ranks; ++r) {
      const std::byte* message = received.data() + r * sent.size();
      std::memcpy(one.indices.data(), message, count * sizeof(std::uint32_t));
      std::memcpy(one.values.data(), message + count * sizeof(std::uint32_t),
                  count * sizeof(float));
      add_to(values, one, 1.0F / static_cast<float>(ranks));
    }
  }
};

struct PowerSgd {
  std::span<float> values;
  std::vector<PowerSgdMatrix> matrices;
  std::vector<float> first = {};   // all P, then what is no matrix
  std::vector<float> second = {};  // all Q

  static std::size_t p_size(const PowerSgdView& m) { return std::size_t{m.rank} * m.rows; }
  static std::size_t size(const PowerSgdView& m) { return std::size_t{m.rows} * m.columns; }

  // Calls body(stretch of `values`) for what is between the matrices.
  template <typename Body>
  void each_plain(const Body& body) const {
    std::size_t at = 0;
    for (const PowerSgdMatrix& matrix : matrices) {
      body(values.subspan(at, matrix.offset - at));
      at = matrix.offset + size(matrix.state);
    }
    body(values.subspan(at));
  }

  void make_room() {
    std::size_t ps = 0;
    std::size_t qs = 0;
    std::size_t dense = 0;
    for (const PowerSgdMatrix& matrix : matrices) {
      ps += p_size(matrix.state);
      qs += matrix.state.q.size();
      dense += size(matrix.state);
    }
    first.resize(ps + values.size() - dense);
    second.resize(qs);
  }
  void encode() {
    auto at = first.begin();
    for (const PowerSgdMatrix& matrix : matrices) {
      const std::size_t length = p_size(matrix.state);
      project(matrix.state, values.subspan(matrix.offset, size(matrix.state)), {at, length});
      at += static_cast<std::ptrdiff_t>(length);
    }
    each_plain([&](std::span<float> plain) { at = std::copy(plain.begin(), plain.end(), at); });
  }
  void turn() {
    auto p = first.begin();
    auto q = second.begin();
    for (const PowerSgdMatrix& matrix : matrices) {
      const std::span<float> factors(p, p_size(matrix.state));
      const std::span<float> others(q, matrix.state.q.size());
      orthogonalize(factors, matrix.state.rank);
      back_project(matrix.state, factors, others);
      p += static_cast<std::ptrdiff_t>(factors.size());
      q += static_cast<std::ptrdiff_t>(others.size());
    }
    each_plain([&](std::span<float> plain) {
      std::copy_n(p, plain.size(), plain.begin());
      p += static_cast<std::ptrdiff_t>(plain.size());
    });
  }
  void decode() {
    auto p = first.begin();
    auto q = second.begin();
    for (const PowerSgdMatrix& matrix : matrices) {
      const std::span<float> factors(p, p_size(matrix.state));
      const std::span<float> others(q, matrix.state.q.size());
      rebuild(matrix.state, factors, others, values.subspan(matrix.offset, size(matrix.state)));
      p += static_cast<std::ptrdiff_t>(factors.size());
      q += static_cast<std::ptrdiff_t>(others.size());
    }
  }
};

// The bytes of one rank, to all; what all ranks sent, by rank.
Operation gathering(std::span<const std::byte> own, std::span<std::byte> all, Timeout timeout) {
  Operation operation = operation_of(OpKind::kAllGather, DType::kU8, timeout);
  operation.input = own;
  operation.output = all;
  return operation;
}

Operation averaging(std::span<float> values, Timeout timeout) {
  Operation operation = operation_of(OpKind::kAllReduce, DType::kF32, timeout);
  operation.reduce = ReduceOp::kAverage;
  operation.output = std::as_writable_bytes(values);
  return operation;
}

// The work of the second. Where only the first could be issued, it is over when this returns.
Result<Work> issue_both(Communicator& communicator, Operation first, Operation second) {
  YARD_TRY(Work begun, communicator.issue(std::move(first)));
  auto work = communicator.issue(std::move(second));
  if (!work) {
    static_cast<void>(begun.wait());  // for the same reason
  }
  return work;
}

Result<void> check_matrices(std::size_t count, std::span<const PowerSgdMatrix> matrices) {
  std::size_t at = 0;
  for (const PowerSgdMatrix& matrix : matrices) {
    const PowerSgdView& m = matrix.state;
    const std::size_t size = PowerSgd::size(m);
    const bool fits = matrix.offset >= at && size <= count && matrix.offset <= count - size;
    if (!fits || m.rank == 0 || m.rank > std::min(m.rows, m.columns) || m.error.size() != size ||
        m.q.size() != std::size_t{m.rank} * m.columns) {
      return wrong(
          fmt::format("a matrix of {} x {} by rank {} at {} does not fit the {} values, its "
                      "state, or the matrix before it",
                      m.rows, m.columns, m.rank, matrix.offset, count));
    }
    at = matrix.offset + size;
  }
  return {};
}

}  // namespace

Result<Work> all_reduce_narrow(Communicator& communicator, DType dtype, std::span<float> values,
                               Timeout timeout) {
  if (dtype != DType::kF16 && dtype != DType::kBF16) {
    return wrong(fmt::format("{} is not float16 or bfloat16", name_of(dtype)));
  }
  const auto job =
      std::make_shared<Narrow>(Narrow{.dtype = dtype,
                                      .values = values,
                                      .scale = 1.0F / static_cast<float>(communicator.size()),
                                      .message = Bytes(2 * values.size())});
  Operation operation = operation_of(OpKind::kAllReduce, dtype, timeout);
  operation.reduce = ReduceOp::kSum;
  operation.output = job->message;
  operation.prepare = [job] { job->encode(); };
  operation.finish = [job] { job->decode(); };
  return communicator.issue(std::move(operation));
}

std::size_t owned_by_each(std::size_t count, std::int32_t world, std::size_t block) {
  const std::size_t stretch = block * static_cast<std::size_t>(world);
  return (count + stretch - 1) / stretch * block;
}

Result<Work> all_reduce_int8(Communicator& communicator, std::span<float> values,
                             const Int8State& state, Timeout timeout) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  if (state.block == 0) {
    return wrong("blocks of nothing");
  }
  const std::size_t part = owned_by_each(values.size(), communicator.size(), state.block);
  if (state.residual.size() != values.size() || state.owned.size() != part) {
    return wrong(fmt::format("the residuals have {} and {} values instead of {} and {}",
                             state.residual.size(), state.owned.size(), values.size(), part));
  }
  const auto job = std::make_shared<Int8>(Int8{.values = values,
                                               .state = state,
                                               .ranks = ranks,
                                               .part = part,
                                               .bytes = int8_bytes(part, state.block)});
  for (Bytes* all : {&job->sent, &job->received, &job->averages}) {
    all->resize(ranks * job->bytes);
  }
  job->own.resize(job->bytes);
  job->sum.resize(part);
  Operation there = operation_of(OpKind::kAllToAll, DType::kU8, timeout);
  there.input = job->sent;
  there.output = job->received;
  there.prepare = [job] { job->encode(); };
  Operation back = gathering(job->own, job->averages, timeout);
  back.prepare = [job] { job->average(); };
  back.finish = [job] { job->decode(); };
  return issue_both(communicator, std::move(there), std::move(back));
}

Result<Work> all_reduce_deep_gradient(Communicator& communicator, std::span<float> values,
                                      const DeepGradientOptions& options,
                                      const DeepGradientView& state, Timeout timeout) {
  if (!(options.density > 0 && options.density <= 1)) {
    return wrong(fmt::format("a density of {} is not in (0, 1]", options.density));
  }
  if (state.velocity.size() != values.size() || state.accumulated.size() != values.size()) {
    return wrong(fmt::format("the state has {} and {} values instead of {}", state.velocity.size(),
                             state.accumulated.size(), values.size()));
  }
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const auto count =
      static_cast<std::size_t>(std::ceil(options.density * static_cast<double>(values.size())));
  const auto job = std::make_shared<DeepGradient>(DeepGradient{
      .values = values, .options = options, .state = state, .ranks = ranks, .count = count});
  job->options.world = communicator.size();
  job->sent.resize(count * (sizeof(std::uint32_t) + sizeof(float)));
  job->received.resize(ranks * job->sent.size());
  Operation operation = gathering(job->sent, job->received, timeout);
  operation.prepare = [job] { job->encode(); };
  operation.finish = [job] { job->decode(); };
  return communicator.issue(std::move(operation));
}

Result<Work> all_reduce_power_sgd(Communicator& communicator, std::span<float> values,
                                  std::vector<PowerSgdMatrix> matrices, Timeout timeout) {
  YARD_TRY(check_matrices(values.size(), matrices));
  const auto job =
      std::make_shared<PowerSgd>(PowerSgd{.values = values, .matrices = std::move(matrices)});
  job->make_room();
  Operation left = averaging(job->first, timeout);
  left.prepare = [job] { job->encode(); };
  left.finish = [job] { job->turn(); };
  Operation right = averaging(job->second, timeout);
  right.finish = [job] { job->decode(); };
  return issue_both(communicator, std::move(left), std::move(right));
}

}  // namespace trainyard::comm
