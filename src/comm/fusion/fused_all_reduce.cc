// SPDX-License-Identifier: Apache-2.0
#include "comm/fusion/fused_all_reduce.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace trainyard::comm {
namespace {

// What is left at the end of a step may be so little that latency is all: the table knows.
constexpr std::size_t kLeastBalanced = std::size_t{64} << 10;

}  // namespace

// Told when the last of its stretches is back.
struct FusedAllReduce::Gradient {
  std::span<std::byte> bytes;
  Told told;
  Mutex mutex;
  std::size_t open GUARDED_BY(mutex) = 1;  // stretches, and one while it is being added
  Result<void> result GUARDED_BY(mutex);

  void begin_one() {
    const MutexLock lock(mutex);
    ++open;
  }
  void end_one(const Result<void>& done) {
    Result<void> all;
    {
      const MutexLock lock(mutex);
      if (!done && result) {
        result = done;
      }
      if (--open > 0) {
        return;
      }
      all = result;
    }
    told(all);
  }
};

struct FusedAllReduce::Buffer {
  struct Part {
    std::shared_ptr<Gradient> gradient;
    std::span<std::byte> there;  // of the gradient
    std::size_t here = 0;        // bytes into the buffer
  };
  std::shared_ptr<std::byte[]> memory;
  std::vector<Part> parts = {};

  void bring_back() {
    for (const Part& part : parts) {
      std::memcpy(part.there.data(), memory.get() + part.here, part.there.size());
    }
  }
};

struct FusedAllReduce::Pool {
  Mutex mutex;
  std::vector<std::shared_ptr<Buffer>> free GUARDED_BY(mutex);
  std::size_t made GUARDED_BY(mutex) = 0;
};

FusedAllReduce::FusedAllReduce(Communicator& communicator, FusionOptions options)
    : communicator_(communicator),
      options_(options),
      element_(size_of(options.dtype)),
      capacity_(std::max<std::uint64_t>(options.buffer_bytes / element_, 1)),
      packer_(capacity_),
      pool_(std::make_shared<Pool>()),
      is_between_hosts_(
          is_available(Algorithm::kBalanced, OpKind::kAllReduce, communicator.world())) {}

FusedAllReduce::~FusedAllReduce() {
  if (filling_ == nullptr) {
    return;
  }
  const Error dropped{Code::kCancelled,
                      "fused all_reduce: the gradient was in a buffer that was not full when the "
                      "fusion ended; call flush() at the end of each step"};
  for (const Buffer::Part& part : filling_->parts) {
    part.gradient->end_one(dropped);
  }
}

// In memory of the host's ranks where they have some in common: it needs no staging.
std::shared_ptr<FusedAllReduce::Buffer> FusedAllReduce::take() {
  {
    const MutexLock lock(pool_->mutex);
    if (!pool_->free.empty()) {
      auto buffer = std::move(pool_->free.back());
      pool_->free.pop_back();
      return buffer;
    }
    ++pool_->made;
  }
  const std::size_t bytes = capacity_ * element_;
  auto shared = communicator_.allocate(bytes);
  auto buffer = std::make_shared<Buffer>();
  buffer->memory = shared ? std::move(*shared)
                          : std::shared_ptr<std::byte[]>(new std::byte[bytes]);  // filled by add()
  return buffer;
}

Result<void> FusedAllReduce::add(std::span<std::byte> bytes, Told told) {
  if (bytes.size() % element_ != 0) {
    return Error{Code::kInvalidArgument,
                 fmt::format("fused all_reduce: {} bytes are no whole elements of {}", bytes.size(),
                             name_of(options_.dtype))};
  }
  auto gradient = std::make_shared<Gradient>();
  gradient->bytes = bytes;
  gradient->told = std::move(told);
  for (const Stretch& stretch : packer_.add(bytes.size() / element_)) {
    if (filling_ == nullptr) {
      filling_ = take();
    }
    const std::span<std::byte> there =
        bytes.subspan(stretch.in_gradient * element_, stretch.length * element_);
    const std::size_t here = stretch.in_buffer * element_;
    std::memcpy(filling_->memory.get() + here, there.data(), there.size());
    gradient->begin_one();
    filling_->parts.push_back({gradient, there, here});
    if (stretch.in_buffer + stretch.length == capacity_) {
      if (const auto sent = send(capacity_); !sent) {
        gradient->end_one(sent);
        return {};
      }
    }
  }
  gradient->end_one({});
  return {};
}

Result<void> FusedAllReduce::flush() {
  const std::uint64_t elements = packer_.filled();
  packer_.close();
  return elements == 0 || filling_ == nullptr ? Result<void>() : send(elements);
}

bool FusedAllReduce::waits_for_flush(std::span<const std::byte> gradient) {
  if (communicator_.fault()) {
    static_cast<void>(flush());
  }
  return filling_ != nullptr && std::ranges::any_of(filling_->parts, [&](const auto& part) {
           return part.gradient->bytes.data() == gradient.data();
         });
}

// What cannot be begun tells its gradients why.
Result<void> FusedAllReduce::send(std::uint64_t elements) {
  const auto buffer = std::exchange(filling_, nullptr);
  Operation operation;
  operation.kind = OpKind::kAllReduce;
  operation.dtype = options_.dtype;
  operation.reduce = options_.reduce;
  operation.output = {buffer->memory.get(), elements * element_};
  operation.timeout = options_.timeout;
  if (is_between_hosts_ && operation.output.size() >= kLeastBalanced) {
    operation.algorithm = Algorithm::kBalanced;
  }
  operation.finish = [buffer] { buffer->bring_back(); };
  const auto end = [buffer, pool = pool_](const Result<void>& done) {
    const std::vector<Buffer::Part> parts = std::exchange(buffer->parts, {});
    {
      const MutexLock lock(pool->mutex);
      pool->free.push_back(buffer);
    }
    for (const Buffer::Part& part : parts) {
      part.gradient->end_one(done);
    }
  };
  auto work = communicator_.issue(std::move(operation));
  if (!work) {
    end(work.error());
    return work.error();
  }
  work->on_done(end);
  return {};
}

std::size_t FusedAllReduce::buffers_made() const {
  const MutexLock lock(pool_->mutex);
  return pool_->made;
}

}  // namespace trainyard::comm
