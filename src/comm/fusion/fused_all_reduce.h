// SPDX-License-Identifier: Apache-2.0
// All-reduces of many gradients as few: they are packed into fusion buffers (packer.h), each of
// which is reduced as soon as it is full, while later gradients are still being computed. Between
// hosts the reduction is balanced: every host combines an equal share, on its processors, and sends
// it back. All ranks add gradients of the same sizes in the same order, and flush alike.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "comm/communicator.h"
#include "comm/fusion/packer.h"

namespace trainyard::comm {

struct FusionOptions {
  DType dtype = DType::kF32;
  ReduceOp reduce = ReduceOp::kAverage;
  std::size_t buffer_bytes = std::size_t{25} << 20;  // at least one element
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
};

class FusedAllReduce {
 public:
  using Told = std::function<void(const Result<void>&)>;

  // The communicator outlives it.
  FusedAllReduce(Communicator& communicator, FusionOptions options);
  // Gradients of a buffer that is not full are told kCancelled: they need a flush before, of all
  // ranks. Nothing is sent.
  ~FusedAllReduce();
  FusedAllReduce(const FusedAllReduce&) = delete;
  FusedAllReduce& operator=(const FusedAllReduce&) = delete;

  // Copies whole elements of `gradient` into buffers, and begins the reduction of those that are
  // full. The result is written to `gradient`, which stays alive until `told` is called: once, with
  // the first error, on the thread that completed it; it must not block. After an error of this
  // call itself it is not called.
  Result<void> add(std::span<std::byte> gradient, Told told);
  // Begins the reduction of what is left: at the end of a step, before anyone waits for it.
  Result<void> flush();
  // Whether a part of `gradient` lies in a buffer that is not full, so that no time-out holds for
  // it yet. After the communicator's end none does: all gradients there are told what ended it.
  bool waits_for_flush(std::span<const std::byte> gradient);

  std::size_t buffers_made() const;  // for tests: they are used again

 private:
  struct Gradient;
  struct Buffer;
  struct Pool;

  std::shared_ptr<Buffer> take();
  Result<void> send(std::uint64_t elements);

  Communicator& communicator_;
  FusionOptions options_;
  std::size_t element_;
  std::uint64_t capacity_;
  Packer packer_;
  std::shared_ptr<Pool> pool_;  // also of buffers whose reduction outlives this
  std::shared_ptr<Buffer> filling_;
  bool is_between_hosts_;
};

}  // namespace trainyard::comm
