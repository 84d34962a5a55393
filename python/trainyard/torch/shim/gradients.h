// SPDX-License-Identifier: Apache-2.0
// What gradients have beside plain operations, as tasks: compressed all-reduces, whose state lies
// in tensors of the caller, and fusion buffers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/utils/pybind.h>

#include "tensors.h"
#include "work.h"

namespace trainyard::torch_shim {

inline float* floats_of(const at::Tensor& tensor, std::int64_t count, const std::string& name) {
  require_usable(tensor, name);
  require(tensor.scalar_type() == at::kFloat && tensor.is_contiguous() && tensor.numel() == count,
          "compressed all_reduce: " + name + " wants " + std::to_string(count) +
              " contiguous float32 values");
  return tensor.data_ptr<float>();
}

// One compressed all-reduce with everything that it points to.
struct Compressed {
  yard_compressed operation = {};
  std::vector<yard_matrix> matrices;
  std::vector<at::Tensor> keep;

  float* kept(const at::Tensor& tensor, std::int64_t count, const std::string& name) {
    keep.push_back(tensor);
    return floats_of(tensor, count, name);
  }
};

// `options` are the keyword arguments of hooks.py.
inline std::shared_ptr<Compressed> compressed_of(const at::Tensor& values, const std::string& codec,
                                                 const pybind11::dict& options, int size) {
  auto all = std::make_shared<Compressed>();
  yard_compressed& operation = all->operation;
  const std::int64_t count = values.numel();
  const auto tensor = [&](const char* name, std::int64_t elements) {
    return all->kept(options[name].cast<at::Tensor>(), elements, name);
  };
  operation.values = all->kept(values, count, "the gradient");
  operation.count = static_cast<std::size_t>(count);
  if (codec == "fp16" || codec == "bf16") {
    operation.codec = YARD_NARROW;
    operation.dtype = codec == "fp16" ? YARD_F16 : YARD_BF16;
  } else if (codec == "int8") {
    operation.codec = YARD_INT8;
    operation.block = options["block"].cast<std::size_t>();
    const std::size_t owned = yard_int8_owned(operation.count, size, operation.block);
    operation.residual = tensor("residual", count);
    operation.owned = tensor("owned", static_cast<std::int64_t>(owned));
  } else if (codec == "deep_gradient") {
    operation.codec = YARD_DEEP_GRADIENT;
    operation.density = options["density"].cast<double>();
    operation.momentum = options["momentum"].cast<float>();
    operation.clip_norm = options["clip_norm"].cast<float>();
    operation.velocity = tensor("velocity", count);
    operation.unsent = tensor("unsent", count);
  } else {
    require(codec == "power_sgd", "compressed all_reduce: there is no codec " + codec);
    operation.codec = YARD_POWER_SGD;
    for (const auto& item : options["matrices"].cast<pybind11::list>()) {
      const auto matrix = item.cast<pybind11::tuple>();
      const auto error = matrix[1].cast<at::Tensor>();
      const auto q = matrix[2].cast<at::Tensor>();
      require(error.dim() == 2 && q.dim() == 2,
              "compressed all_reduce: matrices have two dimensions");
      all->matrices.push_back({.offset = matrix[0].cast<std::size_t>(),
                               .rows = static_cast<std::uint32_t>(error.size(0)),
                               .columns = static_cast<std::uint32_t>(error.size(1)),
                               .rank = static_cast<std::uint32_t>(q.size(0)),
                               .error = all->kept(error, error.numel(), "error"),
                               .q = all->kept(q, q.size(0) * error.size(1), "q")});
    }
    operation.matrices = all->matrices.data();
    operation.matrices_size = all->matrices.size();
  }
  return all;
}

inline Task compressing(const std::shared_ptr<Compressed>& all, Milliseconds timeout) {
  all->operation.timeout_ms = timeout.count();
  Task task;
  task.keep = all->keep;
  task.begin = [all](yard_comm* comm, const Ending& end, yard_work** work, char** error) {
    const int code = yard_comm_issue_compressed(comm, &all->operation, work, error);
    if (code == YARD_OK) {
      yard_work_on_done(*work, end.told, end.context);
    }
    return code;
  };
  return task;
}

// Fusion buffers of one group, for gradients of one dtype.
class Fusion {
 public:
  Fusion(CommunicatorPtr communicator, yard_dtype dtype, std::size_t buffer_bytes)
      : communicator_(std::move(communicator)), dtype_(dtype) {
    char* error = nullptr;
    const yard_fusion_options options{
        .dtype = dtype, .reduce = YARD_AVERAGE, .buffer_bytes = buffer_bytes};
    const int code = yard_fusion_create(communicator_->get(), &options, &own_, &error);
    check(code, error);
  }
  ~Fusion() { yard_fusion_free(own_); }
  Fusion(const Fusion&) = delete;
  Fusion& operator=(const Fusion&) = delete;

  Task adding(const at::Tensor& gradient) {
    writable(gradient, "fusion");
    require(known_dtype(gradient.scalar_type()) == dtype_, "fusion: a gradient of another dtype");
    Task task;
    task.keep.push_back(gradient);
    task.begin = [this, gradient](yard_comm*, const Ending& end, yard_work**, char** error) {
      const yard_gradient all{.data = gradient.data_ptr(),
                              .bytes = gradient.nbytes(),
                              .told = end.told,
                              .context = end.context};
      return yard_fusion_add(own_, &all, error);
    };
    return task;
  }
  void flush() {
    char* error = nullptr;
    const int code = yard_fusion_flush(own_, &error);
    check(code, error);
  }

 private:
  CommunicatorPtr communicator_;  // outlives the buffers
  yard_dtype dtype_;
  yard_fusion* own_ = nullptr;
};

}  // namespace trainyard::torch_shim
