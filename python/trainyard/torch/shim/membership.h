// SPDX-License-Identifier: Apache-2.0
// A backend's part in its communicator, until it leaves: for the thread that issues its operations
// and ends it, and for others, which may ask at any time.
#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>

#include "base.h"

namespace trainyard::torch_shim {

class Membership {
 public:
  explicit Membership(CommunicatorPtr communicator) : communicator_(std::move(communicator)) {}
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  // For the thread that leaves; null when it has left.
  const CommunicatorPtr& own() const { return communicator_; }

  // From any thread: `call`, unless it has left, which waits for this. `call` must not wait for
  // Python's lock.
  template <typename Call>
  void visit(const Call& call) const {
    const Visit visit(*this);
    if (visit.communicator != nullptr) {
      call(visit.communicator);
    }
  }

  // Again: nothing.
  void leave() {
    const WithoutGil release;
    CommunicatorPtr last;
    std::unique_lock<std::mutex> lock(mutex_);
    last.swap(communicator_);
    left_.wait(lock, [&] { return visits_ == 0; });
    lock.unlock();  // `last` may wait for what was issued
  }

 private:
  // Borrows the communicator, so that it ends where it is left.
  struct Visit {
    explicit Visit(const Membership& from) : of(from) {
      const std::lock_guard<std::mutex> lock(of.mutex_);
      ++of.visits_;
      communicator = of.communicator_ == nullptr ? nullptr : of.communicator_->get();
    }
    ~Visit() {
      const std::lock_guard<std::mutex> lock(of.mutex_);
      --of.visits_;
      of.left_.notify_all();
    }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

    const Membership& of;
    yard_comm* communicator = nullptr;
  };

  CommunicatorPtr communicator_;
  mutable std::mutex mutex_;
  mutable std::condition_variable left_;
  mutable int visits_ = 0;
};

inline std::string flight_record_of(const Membership& membership) {
  std::string record;
  membership.visit([&](yard_comm* comm) { record = taken(yard_comm_flight_record(comm)); });
  return record;
}

inline void abort(const Membership& membership, const std::string& reason) {
  membership.visit([&](yard_comm* comm) { yard_comm_abort(comm, reason.c_str()); });
}

}  // namespace trainyard::torch_shim
