// SPDX-License-Identifier: Apache-2.0
// The backend "yard": c10d's operations on tensors of the CPU as operations of the library. Shapes,
// dtypes and order are those of torch.distributed's reference; what the library can only check
// against the other ranks it does itself.
#include <string>
#include <vector>

#include <torch/csrc/utils/pybind.h>

#include "shim/coalescing.h"
#include "shim/gradients.h"
#include "shim/guarded_backend.h"
#include "shim/membership.h"
#include "shim/memory.h"
#include "shim/settings.h"
#include "shim/store.h"
#include "shim/tasks.h"

namespace trainyard::torch_shim {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

class YardBackend : public c10d::Backend, public Inspected {
 public:
  YardBackend(const StorePtr& store, const Settings& settings, const std::string& backend_name)
      : Backend(settings.rank, settings.size),
        name_(backend_name),
        options_(c10::make_intrusive<Options>(backend_name, settings.timeout)),
        store_(store),
        membership_(join(store, settings)),
        pool_(std::make_shared<Pool>(membership_.own())) {
    init();
  }
  ~YardBackend() override { close(); }

  const std::string getBackendName() const override { return name_; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  bool supportsCoalescing() const override { return true; }
  void setTimeout(Milliseconds timeout) override { options_->timeout = timeout; }
  std::uint64_t getSequenceNumberForGroup() override { return sequence_; }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    Task task = reducing("all_reduce", only_one(tensors, "all_reduce"), options.reduceOp);
    return perform({c10d::OpType::ALLREDUCE, "yard:all_reduce", options.timeout, options.asyncOp},
                   one(std::move(task)), tensors);
  }

  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override {
    require(!tensors.empty(), "all_reduce_coalesced: wants a tensor");
    std::vector<Task> tasks;
    if (is_worth_packing(tensors)) {
      const at::Tensor flat = joined_input(tensors, "all_reduce_coalesced");
      tasks.push_back(reducing("all_reduce_coalesced", flat, options.reduceOp));
      if (flat.data_ptr() != tensors.front().data_ptr()) {
        tasks.back().finish = [flat, tensors] {
          each_part(flat, tensors,
                    [](const auto& part, const auto& own) { copy_elements(own, part); });
        };
      }
    } else {
      for (const at::Tensor& tensor : tensors) {
        tasks.push_back(reducing("all_reduce_coalesced", tensor, options.reduceOp));
      }
    }
    return perform({c10d::OpType::ALLREDUCE_COALESCED, "yard:all_reduce_coalesced", options.timeout,
                    options.asyncOp},
                   std::move(tasks), tensors);
  }

  WorkPtr allreduce_sparse(Tensors& /*tensors*/, const c10d::AllreduceOptions&) override {
    fail(YARD_UNIMPLEMENTED, "all_reduce: sparse tensors are not supported; use to_dense()");
  }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    const at::Tensor& tensor = changed(only_one(tensors, "broadcast"), "broadcast");
    Task task = moving(YARD_BROADCAST, tensor, static_cast<int>(options.rootRank));
    set_output(task, tensor);
    return perform({c10d::OpType::BROADCAST, "yard:broadcast", options.timeout, options.asyncOp},
                   one(std::move(task)), tensors);
  }

  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    Task task = reducing("reduce", only_one(tensors, "reduce"), options.reduceOp);
    task.operation.kind = YARD_REDUCE;
    task.operation.root = static_cast<int>(options.rootRank);
    set_input(task, tensors.front());
    if (options.rootRank != rank_) {
      task.operation.output = nullptr;
      task.operation.output_bytes = 0;
    }
    return perform({c10d::OpType::REDUCE, "yard:reduce", options.timeout, options.asyncOp},
                   one(std::move(task)), tensors);
  }

  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override {
    return perform({c10d::OpType::ALLGATHER, "yard:all_gather", options.timeout, options.asyncOp},
                   one(gathering(outputs, inputs, size_)), outputs.front());
  }

  WorkPtr allgather_coalesced(std::vector<Tensors>& lists, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override {
    std::vector<Task> tasks;
    Tensors all;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      // Lists come by rank here, of one tensor for each input.
      Tensors outputs;
      for (const Tensors& of_rank : lists) {
        require(of_rank.size() == inputs.size(), "all_gather_coalesced: lists differ in length");
        outputs.push_back(of_rank[i]);
      }
      all.insert(all.end(), outputs.begin(), outputs.end());
      std::vector<Tensors> list{outputs};
      Tensors input{inputs[i]};
      tasks.push_back(gathering(list, input, size_));
    }
    return perform({c10d::OpType::ALLGATHER_COALESCED, "yard:all_gather_coalesced", options.timeout,
                    options.asyncOp},
                   std::move(tasks), all);
  }

  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override {
    return perform(
        {c10d::OpType::_ALLGATHER_BASE, "yard:all_gather", options.timeout, options.asyncOp},
        one(gathering_flat(output, input, size_)), {output});
  }

  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override {
    require(outputs.size() == inputs.size(), "all_gather: lists differ in length");
    std::vector<Task> tasks;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      tasks.push_back(gathering_flat(outputs[i], inputs[i], size_));
    }
    return perform({c10d::OpType::ALLGATHER_INTO_TENSOR_COALESCED, "yard:all_gather_coalesced",
                    options.timeout, options.asyncOp},
                   std::move(tasks), outputs);
  }

  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override {
    const std::string name = "reduce_scatter";
    require(inputs.size() == 1, name + ": wants one list");
    const Tensors& parts = list_of_all(inputs.front(), size_, name);
    const at::Tensor flat = joined_input(parts, name);
    Task task = scattering(only_one(outputs, name), flat, options.reduceOp);
    if (!are_equal(parts)) {
      task.counts = counts_of(parts, 1);
    }
    return perform(
        {c10d::OpType::REDUCE_SCATTER, "yard:reduce_scatter", options.timeout, options.asyncOp},
        one(std::move(task)), outputs);
  }

  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override {
    require_whole(input, output, size_, "reduce_scatter");
    return perform({c10d::OpType::_REDUCE_SCATTER_BASE, "yard:reduce_scatter", options.timeout,
                    options.asyncOp},
                   one(scattering(output, input, options.reduceOp)), {output});
  }

  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override {
    require(outputs.size() == inputs.size(), "reduce_scatter: lists differ in length");
    std::vector<Task> tasks;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      require_whole(inputs[i], outputs[i], size_, "reduce_scatter");
      tasks.push_back(scattering(outputs[i], inputs[i], options.reduceOp));
    }
    return perform({c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED, "yard:reduce_scatter_coalesced",
                    options.timeout, options.asyncOp},
                   std::move(tasks), outputs);
  }

  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override {
    const std::string name = "gather";
    const at::Tensor input = readable(only_one(inputs, name), name);
    Task task = moving(YARD_GATHER, input, static_cast<int>(options.rootRank));
    set_input(task, input);
    const bool is_root = options.rootRank == rank_;
    require(is_root || outputs.empty(), name + ": only the root has outputs");
    if (is_root) {
      require(outputs.size() == 1, name + ": the root wants one list");
      set_joined_output(task, equal_list(outputs.front(), input, size_, name), name);
    }
    return perform({c10d::OpType::GATHER, "yard:gather", options.timeout, options.asyncOp},
                   one(std::move(task)), is_root ? outputs.front() : Tensors());
  }

  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override {
    const std::string name = "scatter";
    const at::Tensor& output = writable(only_one(outputs, name), name);
    Task task = moving(YARD_SCATTER, output, static_cast<int>(options.rootRank));
    set_output(task, output);
    const bool is_root = options.rootRank == rank_;
    require(is_root || inputs.empty(), name + ": only the root has inputs");
    if (is_root) {
      require(inputs.size() == 1, name + ": the root wants one list");
      set_input(task, joined_input(equal_list(inputs.front(), output, size_, name), name));
    }
    return perform({c10d::OpType::SCATTER, "yard:scatter", options.timeout, options.asyncOp},
                   one(std::move(task)), outputs);
  }

  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input,
                        std::vector<std::int64_t>& output_splits,
                        std::vector<std::int64_t>& input_splits,
                        const c10d::AllToAllOptions& options) override {
    const std::string name = "all_to_all";
    const at::Tensor from = readable(input, name);
    Task task = moving(YARD_ALL_TO_ALL, from, -1);
    set_input(task, from);
    set_output(task, writable(output, name));
    require_same_dtype(output, input, name);
    if (!output_splits.empty() || !input_splits.empty()) {
      task.counts = split_counts(from, input_splits, size_, name);
      task.receive_counts = split_counts(output, output_splits, size_, name);
    }
    return perform(
        {c10d::OpType::ALLTOALL_BASE, "yard:all_to_all", options.timeout, options.asyncOp},
        one(std::move(task)), {output});
  }

  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override {
    const std::string name = "all_to_all";
    const at::Tensor from = joined_input(list_of_all(inputs, size_, name), name);
    Task task = moving(YARD_ALL_TO_ALL, from, -1);
    set_input(task, from);
    set_joined_output(task, list_of_all(outputs, size_, name), name);
    const std::uint64_t units = moved_element(from).units;
    task.counts = counts_of(inputs, units);
    task.receive_counts = counts_of(outputs, units);
    return perform({c10d::OpType::ALLTOALL, "yard:all_to_all", options.timeout, options.asyncOp},
                   one(std::move(task)), outputs);
  }

  WorkPtr send(Tensors& tensors, int peer, int tag) override {
    const at::Tensor tensor = readable(only_one(tensors, "send"), "send");
    Task task = moving(YARD_SEND, tensor, peer);
    task.operation.tag = static_cast<std::uint32_t>(tag);
    set_input(task, tensor);
    return perform({c10d::OpType::SEND, "yard:send"}, one(std::move(task)), tensors);
  }

  WorkPtr recv(Tensors& tensors, int peer, int tag) override {
    const at::Tensor& tensor = writable(only_one(tensors, "recv"), "recv");
    Task task = moving(YARD_RECEIVE, tensor, peer);
    task.operation.tag = static_cast<std::uint32_t>(tag);
    set_output(task, tensor);
    return perform({c10d::OpType::RECV, "yard:recv"}, one(std::move(task)), tensors);
  }

  WorkPtr recvAnysource(Tensors& /*tensors*/, int /*tag*/) override {
    fail(YARD_UNIMPLEMENTED,
         "recv: the backend '" + name_ + "' cannot receive from any rank; say which one with src");
  }

  WorkPtr barrier(const c10d::BarrierOptions& options) override {
    return perform({c10d::OpType::BARRIER, "yard:barrier", options.timeout, options.asyncOp},
                   one(Task{.operation = {.kind = YARD_BARRIER, .root = -1}}), {});
  }

  // The error of a barrier names all ranks that are missing, whatever `wait_all_ranks` says.
  void monitoredBarrier(const c10d::BarrierOptions& options, bool /*wait_all_ranks*/) override {
    perform({c10d::OpType::BARRIER, "yard:monitored_barrier", options.timeout, false},
            one(Task{.operation = {.kind = YARD_BARRIER, .root = -1}}), {});
  }

  // What an earlier one has collected, which was left by an exception of the script's, was never
  // issued.
  void startCoalescing() override {
    give_up_coalescing();
    coalescing_ = true;
  }

  WorkPtr endCoalescing() override {
    require(coalescing_, "coalescing has not begun");
    coalescing_ = false;
    return perform({c10d::OpType::COALESCED, "yard:coalesced"}, std::exchange(coalesced_, {}),
                   std::exchange(coalesced_outputs_, {}));
  }
  void give_up_coalescing() {
    coalescing_ = false;
    coalesced_.clear();
    coalesced_outputs_.clear();
  }

  bool supportsTensorAlloc(c10::DeviceIndex /*device*/) override { return true; }
  std::shared_ptr<c10::Allocator> getMemAllocator() override {
    return std::make_shared<PoolAllocator>(pool_);
  }
  at::Tensor allocateTensor(long size, at::TensorOptions options) override {
    const auto bytes = static_cast<std::size_t>(size) * options.dtype().itemsize();
    auto memory = std::make_shared<c10::DataPtr>(pool_->allocate(bytes));
    void* data = memory->get();
    return at::from_blob(
        data, {size}, [memory](void*) {}, options.device(at::kCPU).requires_grad(false));
  }

  // What the hooks for DDP use.
  WorkPtr allreduce_compressed(const std::shared_ptr<Compressed>& all) {
    const at::Tensor values = all->keep.front();
    return perform({c10d::OpType::ALLREDUCE, "yard:compressed_all_reduce"},
                   one(compressing(all, options_->timeout)), {values});
  }
  std::shared_ptr<Fusion> make_fusion(at::ScalarType type, std::size_t buffer_bytes) {
    const auto dtype = known_dtype(type);
    require(dtype.has_value(), "fusion: a dtype that cannot be reduced");
    auto fusion = std::make_shared<Fusion>(communicator(), *dtype, buffer_bytes);
    std::erase_if(fusions_, [](const auto& one) { return one.expired(); });
    fusions_.push_back(fusion);
    return fusion;
  }
  WorkPtr allreduce_fused(Fusion& fusion, const at::Tensor& gradient) {
    return perform({c10d::OpType::ALLREDUCE, "yard:fused_all_reduce"}, one(fusion.adding(gradient)),
                   {gradient});
  }
  void sweep(Milliseconds limit) {
    char* error = nullptr;
    const int code = yard_comm_sweep(communicator()->get(), limit.count(), &error);
    check(code, error);
  }
  std::string table() { return taken(yard_comm_table(communicator()->get())); }
  int hosts() { return yard_comm_hosts(communicator()->get()); }

  void abort() override { abort_because("abort() was called"); }
  void abort_because(const std::string& reason) override { torch_shim::abort(membership_, reason); }
  void shutdown() override { close(); }

  std::string flight_record() const override { return flight_record_of(membership_); }
  const std::shared_ptr<Pool>& pool() const { return pool_; }

 private:
  struct Call {
    c10d::OpType type;
    const char* title;
    Milliseconds timeout = c10d::kUnsetTimeout;
    bool is_async = true;
  };

  void close() {
    for (const auto& one : std::exchange(fusions_, {})) {
      if (const auto fusion = one.lock()) {
        fusion->close();
      }
    }
    pool_->drop();
    membership_.leave();
  }

  const CommunicatorPtr& communicator() const {
    if (membership_.own() == nullptr) {
      fail(YARD_CANCELLED, "the process group was shut down");
    }
    return membership_.own();
  }

  WorkPtr perform(const Call& call, std::vector<Task> tasks, Tensors outputs) {
    if (coalescing_) {
      std::move(tasks.begin(), tasks.end(), std::back_inserter(coalesced_));
      coalesced_outputs_.insert(coalesced_outputs_.end(), outputs.begin(), outputs.end());
      return nullptr;
    }
    if (membership_.own() == nullptr) {
      fail(YARD_CANCELLED, std::string(call.title) + ": the process group was shut down");
    }
    const bool is_collective = call.type != c10d::OpType::SEND && call.type != c10d::OpType::RECV;
    sequence_ += is_collective ? 1 : 0;
    auto work = c10::make_intrusive<YardWork>(
        Header{.rank = rank_,
               .type = call.type,
               .title = call.title,
               .sequence = sequence_,
               .timeout = call.timeout.count() > 0 ? call.timeout : options_->timeout},
        std::move(tasks), std::move(outputs));
    if (call.is_async) {
      work->issue(membership_.own()->get());
    } else {
      work->run(membership_.own()->get());
    }
    return work;
  }

  std::string name_;
  c10::intrusive_ptr<Options> options_;
  StorePtr store_;
  Membership membership_;  // until shutdown()
  std::shared_ptr<Pool> pool_;
  std::vector<std::weak_ptr<Fusion>> fusions_;  // of Python, which may keep them
  std::uint64_t sequence_ = 0;
  bool coalescing_ = false;
  std::vector<Task> coalesced_;
  Tensors coalesced_outputs_;
};

}  // namespace trainyard::torch_shim

namespace trainyard::torch_shim {
namespace {

namespace py = pybind11;

BackendPtr make(const StorePtr& store, const std::string& backend_name, const py::dict& all) {
  const Settings settings = settings_of(all);
  const py::gil_scoped_release release;  // joining waits for the other ranks
  return c10::make_intrusive<EndsCoalescing<YardBackend>>(store, settings, backend_name);
}

BackendPtr guard(const py::object& inner, const StorePtr& store, const std::string& backend_name,
                 const py::dict& all) {
  const Settings settings = settings_of(all);
  const auto own = inner.cast<BackendPtr>();
  auto keep = kept(inner.ptr());  // a backend of Python's works only while its object lives
  const py::gil_scoped_release release;
  return c10::make_intrusive<EndsCoalescing<GuardedBackend>>(own, std::move(keep), store, settings,
                                                             backend_name);
}

Inspected& inspected(const BackendPtr& backend) {
  auto* own = dynamic_cast<Inspected*>(backend.get());
  require(own != nullptr, "this process group's backend is not one of Trainyard's");
  return *own;
}

YardBackend& yard_of(const BackendPtr& backend) {
  auto* own = dynamic_cast<YardBackend*>(backend.get());
  require(own != nullptr, "this process group's backend is not yard");
  return *own;
}

WorkPtr compressed(const BackendPtr& backend, const at::Tensor& values, const std::string& codec,
                   const py::dict& options) {
  YardBackend& own = yard_of(backend);
  const auto all = compressed_of(values, codec, options, own.getSize());
  const py::gil_scoped_release release;
  return own.allreduce_compressed(all);
}

std::shared_ptr<Fusion> fusion(const BackendPtr& backend, const at::Tensor& like,
                               std::size_t buffer_bytes) {
  return yard_of(backend).make_fusion(like.scalar_type(), buffer_bytes);
}

WorkPtr fused(const BackendPtr& backend, Fusion& buffers, const at::Tensor& gradient) {
  const py::gil_scoped_release release;  // memory that ranks share takes all of them
  return yard_of(backend).allreduce_fused(buffers, gradient);
}

// From here on, large tensors that this thread makes lie in memory of the group; nullptr: no more.
void route_memory(const BackendPtr& backend) {
  auto* own = dynamic_cast<YardBackend*>(backend.get());
  RoutingAllocator::get().set_route(own == nullptr ? nullptr : own->pool());
}

}  // namespace
}  // namespace trainyard::torch_shim

// Names below the module are private to trainyard.torch.
PYBIND11_MODULE(YARD_SHIM_NAME, module) {
  using namespace trainyard::torch_shim;  // NOLINT(google-build-using-namespace)
  namespace py = pybind11;
  module.attr("abi") = yard_comm_abi();
  module.attr("header_abi") = YARD_COMM_ABI;
  module.def("make", &make);
  module.def("guard", &guard);
  module.def("flight_record", [](const BackendPtr& backend) {
    const py::gil_scoped_release release;
    return inspected(backend).flight_record();
  });
  module.def("abort", [](const BackendPtr& backend, const std::string& reason) {
    const py::gil_scoped_release release;
    inspected(backend).abort_because(reason);
  });
  module.def("is_ours", [](const BackendPtr& backend) {
    return dynamic_cast<YardBackend*>(backend.get()) != nullptr;
  });
  module.def("compressed", &compressed);
  py::class_<Fusion, std::shared_ptr<Fusion>>(module, "Fusion").def("flush", [](Fusion& buffers) {
    const py::gil_scoped_release release;
    buffers.flush();
  });
  module.def("fusion", &fusion);
  module.def("fused", &fused);
  module.def("sweep", [](const BackendPtr& backend, std::int64_t milliseconds) {
    const py::gil_scoped_release release;
    yard_of(backend).sweep(Milliseconds(milliseconds));
  });
  module.def("table", [](const BackendPtr& backend) { return yard_of(backend).table(); });
  module.def("hosts", [](const BackendPtr& backend) { return yard_of(backend).hosts(); });
  module.def("route_memory", &route_memory, py::arg("backend").none(true));
}
