// SPDX-License-Identifier: Apache-2.0
// The thread that looks at the operations of a wrapped backend: which have ended, which are late,
// and whether the library knows of a fault.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "guarded_work.h"

namespace trainyard::torch_shim {

class Monitor {
 public:
  explicit Monitor(CommunicatorPtr communicator, std::function<void()> abort_inner)
      : communicator_(std::move(communicator)), abort_inner_(std::move(abort_inner)) {
    thread_ = std::thread([this] { watch(); });
  }
  ~Monitor() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void add(const c10::intrusive_ptr<GuardedWork>& work) {
    const std::lock_guard<std::mutex> lock(mutex_);
    works_.push_back(work);
    changed_.notify_all();
  }

 private:
  static constexpr Milliseconds kLook{20};

  void watch() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!is_stopping_) {
      if (works_.empty()) {
        changed_.wait(lock);
        continue;
      }
      changed_.wait_for(lock, kLook, [&] { return is_stopping_; });
      auto works = std::move(works_);
      works_.clear();
      lock.unlock();
      look_at(works);
      lock.lock();
      works_.insert(works_.begin(), works.begin(), works.end());
    }
  }

  void look_at(std::vector<c10::intrusive_ptr<GuardedWork>>& works) {
    char* text = nullptr;
    std::exception_ptr fault;
    if (const int code = yard_comm_fault(communicator_->get(), &text); code != YARD_OK) {
      fault = exception_of(code, taken(text));
    }
    works.erase(std::remove_if(works.begin(), works.end(),
                               [&](const auto& work) { return work->look(fault); }),
                works.end());
    if (fault && !has_aborted_) {
      has_aborted_ = true;
      perform_whatever_it_throws("the wrapped backend was not aborted", abort_inner_);
    }
  }

  CommunicatorPtr communicator_;
  std::function<void()> abort_inner_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<c10::intrusive_ptr<GuardedWork>> works_;
  bool is_stopping_ = false;
  bool has_aborted_ = false;
  std::thread thread_;
};

}  // namespace trainyard::torch_shim
