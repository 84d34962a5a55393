// SPDX-License-Identifier: Apache-2.0
// Any c10d backend, wrapped: it moves the data as it always does, and the library numbers and
// compares the operations, names who is late or gone, ends everybody's, and keeps the flight
// record. "yard+gloo", "yard+nccl".
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "guard.h"
#include "inputs.h"
#include "store.h"

namespace trainyard::torch_shim {

using BackendPtr = c10::intrusive_ptr<c10d::Backend>;

class GuardedBackend : public c10d::Backend, public Inspected {
 public:
  // `keep` lives as long as it does.
  GuardedBackend(BackendPtr inner, std::shared_ptr<void> keep, const StorePtr& store,
                 const Settings& settings, const std::string& name)
      : Backend(settings.rank, settings.size),
        name_(name),
        options_(c10::make_intrusive<Options>(name, settings.timeout)),
        store_(store),
        keep_(std::move(keep)),
        inner_(std::move(inner)),
        guard_(settings.rank, name, join(store, settings), [this] { inner_->abort(); }) {
    init();
  }
  ~GuardedBackend() override {
    perform_whatever_it_throws("the wrapped backend was not shut down", [this] { shutdown(); });
  }

  const std::string getBackendName() const override { return name_; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  bool supportsCoalescing() const override { return inner_->supportsCoalescing(); }
  void setTimeout(Milliseconds timeout) override { options_->timeout = timeout; }
  std::uint64_t getSequenceNumberForGroup() override { return guard_.sequence(); }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    check_in_place(tensors, "all_reduce");
    return reduced({c10d::OpType::ALLREDUCE, YARD_ALL_REDUCE}, tensors, options,
                   [=, this](const auto& own) mutable { return inner_->allreduce(tensors, own); });
  }
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override {
    check_in_place(tensors, "all_reduce_coalesced");
    return reduced(
        {c10d::OpType::ALLREDUCE_COALESCED, YARD_ALL_REDUCE}, tensors, options,
        [=, this](const auto& own) mutable { return inner_->allreduce_coalesced(tensors, own); });
  }
  WorkPtr allreduce_sparse(Tensors& /*tensors*/, const c10d::AllreduceOptions&) override {
    fail(YARD_INVALID_ARGUMENT, "all_reduce: sparse tensors are not supported; use to_dense()");
  }
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    check_in_place(tensors, "reduce");
    return reduced({c10d::OpType::REDUCE, YARD_REDUCE, root_of(options)}, tensors, options,
                   [=, this](const auto& own) mutable { return inner_->reduce(tensors, own); });
  }
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override {
    const Tensors& parts = check_list(inputs, size_, "reduce_scatter");
    return reduced({c10d::OpType::REDUCE_SCATTER, YARD_REDUCE_SCATTER}, parts, options,
                   [=, this](const auto& own) mutable {
                     return inner_->reduce_scatter(outputs, inputs, own);
                   });
  }
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override {
    require_whole(input, output, size_, "reduce_scatter");
    return reduced({c10d::OpType::_REDUCE_SCATTER_BASE, YARD_REDUCE_SCATTER}, {input}, options,
                   [=, this](const auto& own) mutable {
                     return inner_->_reduce_scatter_base(output, input, own);
                   });
  }
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override {
    return reduced({c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED, YARD_REDUCE_SCATTER}, inputs,
                   options, [=, this](const auto& own) mutable {
                     return inner_->reduce_scatter_tensor_coalesced(outputs, inputs, own);
                   });
  }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    check_in_place(tensors, "broadcast");
    return moved({c10d::OpType::BROADCAST, YARD_BROADCAST, root_of(options)}, tensors, options,
                 [=, this](const auto& own) mutable { return inner_->broadcast(tensors, own); });
  }
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override {
    return moved(
        {c10d::OpType::ALLGATHER, YARD_ALL_GATHER}, check_list(outputs, size_, "all_gather"),
        options,
        [=, this](const auto& own) mutable { return inner_->allgather(outputs, inputs, own); });
  }
  WorkPtr allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override {
    return moved({c10d::OpType::ALLGATHER_COALESCED, YARD_ALL_GATHER}, outputs.at(0), options,
                 [=, this](const auto& own) mutable {
                   return inner_->allgather_coalesced(outputs, inputs, own);
                 });
  }
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override {
    require_whole(output, input, size_, "all_gather");
    return moved(
        {c10d::OpType::_ALLGATHER_BASE, YARD_ALL_GATHER}, {output}, options,
        [=, this](const auto& own) mutable { return inner_->_allgather_base(output, input, own); });
  }
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override {
    return moved({c10d::OpType::ALLGATHER_INTO_TENSOR_COALESCED, YARD_ALL_GATHER}, outputs, options,
                 [=, this](const auto& own) mutable {
                   return inner_->allgather_into_tensor_coalesced(outputs, inputs, own);
                 });
  }
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override {
    return moved(
        {c10d::OpType::GATHER, YARD_GATHER, root_of(options)}, inputs, options,
        [=, this](const auto& own) mutable { return inner_->gather(outputs, inputs, own); });
  }
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override {
    return moved(
        {c10d::OpType::SCATTER, YARD_SCATTER, root_of(options)}, outputs, options,
        [=, this](const auto& own) mutable { return inner_->scatter(outputs, inputs, own); });
  }
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input,
                        std::vector<std::int64_t>& output_splits,
                        std::vector<std::int64_t>& input_splits,
                        const c10d::AllToAllOptions& options) override {
    const auto call = [=, this](const auto& own) mutable {
      return inner_->alltoall_base(output, input, output_splits, input_splits, own);
    };
    if (output_splits.empty() && input_splits.empty()) {
      return moved({c10d::OpType::ALLTOALL_BASE, YARD_ALL_TO_ALL}, {input}, options, call);
    }
    return uneven(c10d::OpType::ALLTOALL_BASE, input,
                  {.sent = split_counts(input, input_splits, size_, "all_to_all"),
                   .taken = split_counts(output, output_splits, size_, "all_to_all")},
                  options, call);
  }
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override {
    return uneven(c10d::OpType::ALLTOALL, list_of_all(inputs, size_, "all_to_all").front(),
                  {.sent = counts_of(inputs, 1),
                   .taken = counts_of(list_of_all(outputs, size_, "all_to_all"), 1)},
                  options, [=, this](const auto& own) mutable {
                    return inner_->alltoall(outputs, inputs, own);
                  });
  }

  WorkPtr barrier(const c10d::BarrierOptions& options) override {
    const Description what{.type = c10d::OpType::BARRIER,
                           .what = {.kind = YARD_BARRIER, .dtype = YARD_U8, .root = -1},
                           .timeout = options.timeout};
    return guard_.collective(what, options_->timeout,
                             [this, own = for_inner(options)] { return inner_->barrier(own); });
  }
  void monitoredBarrier(const c10d::BarrierOptions& options, bool /*wait_all_ranks*/) override {
    guard_.barrier(options.timeout.count() > 0 ? options.timeout : options_->timeout);
  }

  WorkPtr send(Tensors& tensors, int peer, int tag) override {
    return guard_.one_sided(describe_one_sided(c10d::OpType::SEND, tensors, peer, tag),
                            options_->timeout,
                            [=, this]() mutable { return inner_->send(tensors, peer, tag); });
  }
  WorkPtr recv(Tensors& tensors, int peer, int tag) override {
    return guard_.one_sided(describe_one_sided(c10d::OpType::RECV, tensors, peer, tag),
                            options_->timeout,
                            [=, this]() mutable { return inner_->recv(tensors, peer, tag); });
  }
  WorkPtr recvAnysource(Tensors& tensors, int tag) override {
    return guard_.receive_from_any(describe_one_sided(c10d::OpType::RECV, tensors, -1, tag),
                                   options_->timeout,
                                   [&] { return inner_->recvAnysource(tensors, tag); });
  }

  void startCoalescing() override {
    give_up_coalescing();       // that an exception of the script's has left
    inner_->startCoalescing();  // or it has none
    guard_.start_coalescing();
  }
  WorkPtr endCoalescing() override {
    return guard_.end_coalescing(options_->timeout, [this] { return inner_->endCoalescing(); });
  }
  void give_up_coalescing() {
    guard_.give_up_coalescing([this] { inner_->endCoalescing(); });
  }

  bool supportsTensorAlloc(c10::DeviceIndex device) override {
    return inner_->supportsTensorAlloc(device);
  }
  std::shared_ptr<c10::Allocator> getMemAllocator() override { return inner_->getMemAllocator(); }
  at::Tensor allocateTensor(long size, at::TensorOptions options) override {
    return inner_->allocateTensor(size, options);
  }
  void abort() override { abort_because("abort() was called"); }
  void abort_because(const std::string& reason) override {
    guard_.abort(reason);
    inner_->abort();
  }
  void shutdown() override {
    if (!is_shut_down_) {
      is_shut_down_ = true;
      const WithoutGil release;  // the other backend may be of Python
      guard_.shut_down([this] { inner_->shutdown(); });
    }
  }
  std::string flight_record() const override { return guard_.flight_record(); }

 private:
  // What a collective is, beside its tensors and options.
  struct Call {
    c10d::OpType type;
    yard_kind kind;
    int root = -1;
  };

  template <typename Options>
  static int root_of(const Options& options) {
    return static_cast<int>(options.rootRank);
  }

  template <typename Options, typename Begin>
  WorkPtr reduced(const Call& call, const Tensors& tensors, const Options& options,
                  const Begin& begin) {
    const yard_reduce reduce = check_reduction(tensors, options.reduceOp, "the operation");
    return perform(call, reduce, tensors, options, begin);
  }
  template <typename Options, typename Begin>
  WorkPtr moved(const Call& call, const Tensors& tensors, const Options& options,
                const Begin& begin) {
    return perform(call, YARD_NONE, tensors, options, begin);
  }
  template <typename Options, typename Begin>
  WorkPtr perform(const Call& call, yard_reduce reduce, const Tensors& tensors,
                  const Options& options, const Begin& begin) {
    const Description what = describe(
        {.type = call.type,
         .what = {.kind = call.kind, .dtype = YARD_U8, .reduce = reduce, .root = call.root},
         .timeout = options.timeout},
        tensors);
    return guard_.collective(
        what, options_->timeout,
        [own_begin = begin, own = for_inner(options)]() mutable { return own_begin(own); });
  }

  // Each rank knows only what it sends and what it takes; on the CPU they tell each other.
  template <typename Options, typename Begin>
  WorkPtr uneven(c10d::OpType type, const at::Tensor& like, const Splits& own,
                 const Options& options, const Begin& begin) {
    const Tensors nothing{like.flatten().narrow(0, 0, 0)};
    if (!like.device().is_cpu()) {
      return moved({type, YARD_ALL_TO_ALL}, nothing, options, begin);
    }
    const Milliseconds timeout = options.timeout.count() > 0 ? options.timeout : options_->timeout;
    const auto splits = guard_.tell(own, timeout);
    return moved({type, YARD_ALL_TO_ALL}, nothing, options,
                 [splits, rank = rank_, own_begin = begin](const auto& inner) mutable {
                   check_told(*splits, rank);
                   return own_begin(inner);
                 });
  }

  std::string name_;
  c10::intrusive_ptr<Options> options_;
  StorePtr store_;
  std::shared_ptr<void> keep_;
  BackendPtr inner_;
  Guard guard_;
  bool is_shut_down_ = false;
};

}  // namespace trainyard::torch_shim
