// SPDX-License-Identifier: Apache-2.0
// The C face of what gradients have beside plain operations: compression and fusion.
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "comm/c/handles.h"
#include "comm/compress/all_reduce.h"
#include "comm/fusion/fused_all_reduce.h"

struct yard_fusion {
  trainyard::comm::FusedAllReduce own;
};

namespace {

using namespace trainyard::comm;  // NOLINT(google-build-using-namespace): the C face of it

Result<Work> issue_power_sgd(Communicator& communicator, const yard_compressed& from,
                             std::span<float> values, Timeout timeout) {
  std::vector<PowerSgdMatrix> matrices;
  for (const yard_matrix& one : std::span(from.matrices, from.matrices_size)) {
    matrices.push_back({.offset = one.offset,
                        .state = {.rows = one.rows,
                                  .columns = one.columns,
                                  .rank = one.rank,
                                  .error = {one.error, std::size_t{one.rows} * one.columns},
                                  .q = {one.q, std::size_t{one.rank} * one.columns}}});
  }
  return all_reduce_power_sgd(communicator, values, std::move(matrices), timeout);
}

Result<Work> issue(Communicator& communicator, const yard_compressed& from) {
  const std::span<float> values(from.values, from.count);
  const Timeout timeout =
      from.timeout_ms > 0 ? Timeout(std::chrono::milliseconds(from.timeout_ms)) : std::nullopt;
  switch (from.codec) {
    case YARD_NARROW:
      return all_reduce_narrow(communicator, static_cast<DType>(from.dtype), values, timeout);
    case YARD_INT8: {
      const std::size_t owned =
          from.block == 0 ? 0 : owned_by_each(from.count, communicator.size(), from.block);
      return all_reduce_int8(communicator, values,
                             {.block = from.block,
                              .residual = {from.residual, from.count},
                              .owned = {from.owned, owned}},
                             timeout);
    }
    case YARD_DEEP_GRADIENT:
      return all_reduce_deep_gradient(
          communicator, values,
          {.density = from.density,
           .warmup_epochs = 0,
           .momentum = from.momentum,
           .clip_norm = from.clip_norm},
          {.velocity = {from.velocity, from.count}, .accumulated = {from.unsent, from.count}},
          timeout);
    case YARD_POWER_SGD:
      return issue_power_sgd(communicator, from, values, timeout);
  }
  return Error{Code::kInvalidArgument, "a codec that this library does not know"};
}

}  // namespace

size_t yard_int8_owned(size_t count, int32_t world, size_t block) {
  return world < 1 || block == 0 ? 0 : owned_by_each(count, world, block);
}

int yard_comm_issue_compressed(yard_comm* comm, const yard_compressed* operation, yard_work** work,
                               char** error) {
  auto issued = issue(*comm->own, *operation);
  if (!issued) {
    return report(issued.error(), error);
  }
  *work = new yard_work{std::move(*issued)};  // owned by the caller, until yard_work_free
  return YARD_OK;
}

int yard_fusion_create(yard_comm* comm, const yard_fusion_options* options, yard_fusion** fusion,
                       char** error) {
  const auto dtype = static_cast<DType>(options->dtype);
  const auto reduce = static_cast<ReduceOp>(options->reduce);
  if (options->dtype < YARD_F32 || options->dtype > YARD_BOOL || !is_supported(reduce, dtype)) {
    return report(Error{Code::kInvalidArgument, "a fusion of this dtype by this reduction"}, error);
  }
  *fusion = new yard_fusion{FusedAllReduce(
      *comm->own,
      {.dtype = dtype, .reduce = reduce, .buffer_bytes = options->buffer_bytes})};  // the caller's
  return YARD_OK;
}

int yard_fusion_add(yard_fusion* fusion, const yard_gradient* gradient, char** error) {
  const auto added = fusion->own.add(
      {static_cast<std::byte*>(gradient->data), gradient->bytes},
      [told = gradient->told, context = gradient->context](const Result<void>& result) {
        told(context, result ? YARD_OK : code_of(result.error()),
             result ? "" : result.error().message.c_str());
      });
  return added ? YARD_OK : report(added.error(), error);
}

int yard_fusion_flush(yard_fusion* fusion, char** error) {
  const auto flushed = fusion->own.flush();
  return flushed ? YARD_OK : report(flushed.error(), error);
}

int yard_fusion_waits_for_flush(yard_fusion* fusion, const void* data, size_t bytes) {
  return fusion->own.waits_for_flush({static_cast<const std::byte*>(data), bytes}) ? 1 : 0;
}

void yard_fusion_free(yard_fusion* fusion) {
  delete fusion;
}
