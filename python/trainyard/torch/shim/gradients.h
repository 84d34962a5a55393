// SPDX-License-Identifier: Apache-2.0
// What gradients have beside plain operations, as tasks: compressed all-reduces, whose state lies
// in tensors of the caller, and fusion buffers.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/utils/pybind.h>

#include "gil.h"
#include "store.h"
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

// Fusion buffers of one group, for gradients of one dtype. Python may hold it longer than the group
// lives: the backend closes it before.
class Fusion : public std::enable_shared_from_this<Fusion> {
 public:
  Fusion(CommunicatorPtr communicator, yard_dtype dtype, std::size_t buffer_bytes)
      : communicator_(std::move(communicator)), dtype_(dtype) {
    char* error = nullptr;
    const yard_fusion_options options{
        .dtype = dtype, .reduce = YARD_AVERAGE, .buffer_bytes = buffer_bytes};
    const int code = yard_fusion_create(communicator_->get(), &options, &own_, &error);
    check(code, error);
  }
  ~Fusion() { close(); }
  Fusion(const Fusion&) = delete;
  Fusion& operator=(const Fusion&) = delete;

  // Who waits for a flush is told that there is none any more; later ones are refused. Again:
  // nothing.
  void close() {
    const WithoutGil release;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (own_ != nullptr) {
      yard_fusion_free(std::exchange(own_, nullptr));
    }
    communicator_.reset();
  }

  Task adding(const at::Tensor& gradient) {
    writable(gradient, "fusion");
    require(known_dtype(gradient.scalar_type()) == dtype_, "fusion: a gradient of another dtype");
    // Not a reference: an unflushed gradient's work would keep the fusion, and the fusion the work.
    const std::weak_ptr<Fusion> self = weak_from_this();
    Task task;
    task.keep.push_back(gradient);
    task.begin = [self, gradient](yard_comm*, const Ending& end, yard_work**, char** error) {
      const auto fusion = self.lock();
      if (fusion == nullptr) {
        *error = copy_of(kClosed);
        return static_cast<int>(YARD_CANCELLED);
      }
      return fusion->add({.data = gradient.data_ptr(),
                          .bytes = gradient.nbytes(),
                          .told = end.told,
                          .context = end.context},
                         error);
    };
    task.is_unbegun = [self, data = gradient.data_ptr(), bytes = gradient.nbytes()] {
      const auto fusion = self.lock();
      return fusion != nullptr && fusion->waits_for_flush(data, bytes);
    };
    return task;
  }
  void flush() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (own_ == nullptr) {
      fail(YARD_CANCELLED, kClosed);
    }
    char* error = nullptr;
    const int code = yard_fusion_flush(own_, &error);
    check(code, error);
  }

 private:
  static constexpr const char* kClosed = "fusion: the process group was shut down";

  int add(const yard_gradient& gradient, char** error) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (own_ == nullptr) {
      *error = copy_of(kClosed);
      return YARD_CANCELLED;
    }
    return yard_fusion_add(own_, &gradient, error);
  }
  bool waits_for_flush(const void* data, std::size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return own_ != nullptr && yard_fusion_waits_for_flush(own_, data, bytes) != 0;
  }

  std::mutex mutex_;              // who waits for a gradient asks, beside who adds others
  CommunicatorPtr communicator_;  // outlives the buffers
  yard_dtype dtype_;
  yard_fusion* own_ = nullptr;  // null when closed
};

}  // namespace trainyard::torch_shim
