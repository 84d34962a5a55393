// SPDX-License-Identifier: Apache-2.0
// Memory that the ranks of this host share, for tensors: operations on it need no staging. Making
// such a buffer takes all ranks of the host, so those that are given back are kept, by size, for
// the next tensor of this process group.
#pragma once

#include <algorithm>
#include <map>
#include <mutex>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include "base.h"

namespace trainyard::torch_shim {

class Pool : public std::enable_shared_from_this<Pool> {
 public:
  explicit Pool(std::weak_ptr<Communicator> communicator)
      : communicator_(std::move(communicator)) {}
  ~Pool() { drop(); }

  // Ordinary memory when there is nobody to share with.
  c10::DataPtr allocate(std::size_t bytes) {
    const std::size_t size = (std::max<std::size_t>(bytes, 1) + kStep - 1) / kStep * kStep;
    auto* lease = new Lease{shared_from_this(), nullptr, nullptr, size};
    if (!take(*lease) && !make(*lease)) {
      delete lease;
      return c10::GetDefaultCPUAllocator()->allocate(bytes);
    }
    return {lease->data, lease, give_back, c10::Device(c10::DeviceType::CPU)};
  }

  // Those that nobody uses.
  void drop() {
    std::multimap<std::size_t, Kept> kept;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      kept.swap(kept_);
      kept_bytes_ = 0;
    }
    for (const auto& [size, one] : kept) {
      yard_buffer_free(one.buffer);
    }
  }

 private:
  static constexpr std::size_t kStep = std::size_t{64} << 10;
  static constexpr std::size_t kMostKept = std::size_t{1} << 30;

  struct Kept {
    yard_buffer* buffer;
    void* data;
  };
  struct Lease {
    std::shared_ptr<Pool> pool;  // until the tensor ends
    yard_buffer* buffer;
    void* data;
    std::size_t size;
  };

  bool take(Lease& lease) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = kept_.lower_bound(lease.size);
    if (found == kept_.end() || found->first > lease.size + lease.size / 4) {
      return false;
    }
    lease.buffer = found->second.buffer;
    lease.data = found->second.data;
    lease.size = found->first;
    kept_bytes_ -= found->first;
    kept_.erase(found);
    return true;
  }

  bool make(Lease& lease) const {
    const auto communicator = communicator_.lock();
    return communicator != nullptr &&
           yard_comm_allocate(communicator->get(), lease.size, &lease.buffer, &lease.data,
                              nullptr) == YARD_OK;
  }

  static void give_back(void* context) {
    const std::unique_ptr<Lease> lease(static_cast<Lease*>(context));
    Pool& pool = *lease->pool;
    if (!pool.communicator_.expired()) {
      const std::lock_guard<std::mutex> lock(pool.mutex_);
      if (pool.kept_bytes_ + lease->size <= kMostKept) {
        pool.kept_bytes_ += lease->size;
        pool.kept_.emplace(lease->size, Kept{lease->buffer, lease->data});
        return;
      }
    }
    yard_buffer_free(lease->buffer);
  }

  std::weak_ptr<Communicator> communicator_;
  std::mutex mutex_;
  std::multimap<std::size_t, Kept> kept_;  // by size
  std::size_t kept_bytes_ = 0;
};

class PoolAllocator final : public c10::Allocator {
 public:
  explicit PoolAllocator(std::shared_ptr<Pool> pool) : pool_(std::move(pool)) {}
  c10::DataPtr allocate(std::size_t bytes) override { return pool_->allocate(bytes); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  std::shared_ptr<Pool> pool_;
};

// While it is PyTorch's allocator of ordinary memory, large tensors of the thread that chose a pool
// come from there. For what allocates inside PyTorch: gradient buckets.
class RoutingAllocator final : public c10::Allocator {
 public:
  static constexpr std::size_t kLeast = std::size_t{16} << 10;

  static RoutingAllocator& get() {
    static RoutingAllocator own;
    return own;
  }

  // One thread at a time has a route. nullptr ends it.
  void set_route(const std::shared_ptr<Pool>& pool) {
    if (pool != nullptr && before_ == nullptr) {
      before_ = c10::GetCPUAllocator();
      c10::SetCPUAllocator(this, kPriority);
    } else if (pool == nullptr && before_ != nullptr) {
      c10::SetCPUAllocator(before_, kPriority);
      before_ = nullptr;
    }
    route() = pool;
  }

  c10::DataPtr allocate(std::size_t bytes) override {
    const auto& pool = route();
    c10::Allocator* before = before_;  // null for who came here as the route ended
    c10::Allocator* ordinary = before == nullptr ? c10::GetDefaultCPUAllocator() : before;
    return pool != nullptr && bytes >= kLeast ? pool->allocate(bytes) : ordinary->allocate(bytes);
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static constexpr std::uint8_t kPriority = 100;

  static std::shared_ptr<Pool>& route() {
    static thread_local std::shared_ptr<Pool> own;
    return own;
  }

  std::atomic<c10::Allocator*> before_{nullptr};
};

}  // namespace trainyard::torch_shim
