// SPDX-License-Identifier: Apache-2.0
// PyTorch does not end the coalescing when one of its operations is refused, and would take every
// later operation for another one of it.
#pragma once

#include <vector>

#include "tensors.h"

namespace trainyard::torch_shim {

// A backend that gives up the coalescing, if there is one, when an operation throws.
template <typename Own>
class EndsCoalescing final : public Own {
 public:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using Lists = std::vector<Tensors>;
  using Own::Own;

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return whole([&] { return Own::allreduce(tensors, options); });
  }
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override {
    return whole([&] { return Own::allreduce_coalesced(tensors, options); });
  }
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return whole([&] { return Own::allreduce_sparse(tensors, options); });
  }
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return whole([&] { return Own::broadcast(tensors, options); });
  }
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    return whole([&] { return Own::reduce(tensors, options); });
  }
  WorkPtr allgather(Lists& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override {
    return whole([&] { return Own::allgather(outputs, inputs, options); });
  }
  WorkPtr allgather_coalesced(Lists& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override {
    return whole([&] { return Own::allgather_coalesced(outputs, inputs, options); });
  }
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override {
    return whole([&] { return Own::_allgather_base(output, input, options); });
  }
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override {
    return whole([&] { return Own::allgather_into_tensor_coalesced(outputs, inputs, options); });
  }
  WorkPtr reduce_scatter(Tensors& outputs, Lists& inputs,
                         const c10d::ReduceScatterOptions& options) override {
    return whole([&] { return Own::reduce_scatter(outputs, inputs, options); });
  }
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override {
    return whole([&] { return Own::_reduce_scatter_base(output, input, options); });
  }
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override {
    return whole([&] { return Own::reduce_scatter_tensor_coalesced(outputs, inputs, options); });
  }
  WorkPtr gather(Lists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override {
    return whole([&] { return Own::gather(outputs, inputs, options); });
  }
  WorkPtr scatter(Tensors& outputs, Lists& inputs, const c10d::ScatterOptions& options) override {
    return whole([&] { return Own::scatter(outputs, inputs, options); });
  }
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input,
                        std::vector<std::int64_t>& output_splits,
                        std::vector<std::int64_t>& input_splits,
                        const c10d::AllToAllOptions& options) override {
    return whole(
        [&] { return Own::alltoall_base(output, input, output_splits, input_splits, options); });
  }
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override {
    return whole([&] { return Own::alltoall(outputs, inputs, options); });
  }
  WorkPtr send(Tensors& tensors, int peer, int tag) override {
    return whole([&] { return Own::send(tensors, peer, tag); });
  }
  WorkPtr recv(Tensors& tensors, int peer, int tag) override {
    return whole([&] { return Own::recv(tensors, peer, tag); });
  }
  WorkPtr recvAnysource(Tensors& tensors, int tag) override {
    return whole([&] { return Own::recvAnysource(tensors, tag); });
  }

 private:
  template <typename Call>
  WorkPtr whole(const Call& call) {
    try {
      return call();
    } catch (...) {
      this->give_up_coalescing();
      throw;
    }
  }
};

}  // namespace trainyard::torch_shim
