// SPDX-License-Identifier: Apache-2.0
// What all Works of this shim have in common: one end, that those hear who wait in the Work and
// those who wait by its future. The future is made when somebody asks for it, and completed on a
// thread that may wait (completer.h).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "base.h"
#include "completer.h"

namespace trainyard::torch_shim {

using FuturePtr = c10::intrusive_ptr<c10::ivalue::Future>;

// What c10d wants to know of a Work.
struct Header {
  int rank = 0;
  c10d::OpType type = c10d::OpType::UNKNOWN;
  const char* title = nullptr;  // in profiles; null where it has no entry of its own
  std::uint64_t sequence = 0;
  Milliseconds timeout{};

  bool is_one_sided() const { return type == c10d::OpType::SEND || type == c10d::OpType::RECV; }
};

class FutureWork : public c10d::Work {
 public:
  explicit FutureWork(const Header& header)
      : c10d::Work(header.rank, header.type, header.title), header_(header) {}

  FuturePtr getFuture() override {
    bool is_over = false;
    {
      const std::lock_guard<std::mutex> lock(future_mutex_);
      if (future_ != nullptr) {
        return future_;
      }
      future_ =
          c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
      is_over = is_over_;
    }
    if (is_over) {
      settle(exception_);
    }
    return future_;
  }

  std::uint64_t getSequencenumber() const override { return header_.sequence; }

 protected:
  const Header& header() const { return header_; }
  // Of a future that ends well; after end_for_all().
  virtual c10::IValue value() = 0;

  // Once, from any thread.
  void end_for_all(const std::exception_ptr& error) {
    finish(error);
    bool is_wanted = false;
    {
      const std::lock_guard<std::mutex> lock(future_mutex_);
      is_over_ = true;
      is_wanted = future_ != nullptr;
    }
    if (is_wanted) {
      settle_later(error);
    }
  }

  // Gives the future, which somebody has asked for, its end, unless it has one.
  void settle_later(const std::exception_ptr& error) {
    auto self = c10::intrusive_ptr<FutureWork>::unsafe_reclaim_from_nonowning(this);
    Completer::get().post([self, error] { self->settle(error); });
  }

  // Until the end, which may be an error; at most for `limit`.
  void wait_for_end(std::optional<Milliseconds> limit) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!limit) {
      cv_.wait(lock, [&] { return completed_; });
    } else if (!cv_.wait_for(lock, *limit, [&] { return completed_; })) {
      fail(YARD_DEADLINE, name() + " was not complete after the " + std::to_string(limit->count()) +
                              " ms that wait() was given; it goes on");
    }
    if (exception_) {
      std::rethrow_exception(exception_);
    }
  }

 private:
  std::string name() const {
    return header_.title != nullptr ? header_.title : c10d::opTypeToString(header_.type);
  }

  void settle(const std::exception_ptr& error) {
    if (is_settled_.exchange(true)) {
      return;
    }
    if (error) {
      future_->setError(error);
    } else {
      future_->markCompleted(value());
    }
  }

  Header header_;
  std::mutex future_mutex_;
  FuturePtr future_;  // written once
  bool is_over_ = false;
  std::atomic<bool> is_settled_{false};
};

}  // namespace trainyard::torch_shim
