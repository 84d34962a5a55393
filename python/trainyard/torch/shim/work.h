// SPDX-License-Identifier: Apache-2.0
// c10d::Work over one or more operations of the library. It keeps their memory until they are done,
// also when nobody holds it any more; who waits for it performs them where the library can.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base.h"
#include "future_work.h"
#include "reminder.h"

namespace trainyard::torch_shim {

// Whom an operation tells its end.
struct Ending {
  yard_done told;
  void* context;
};

// One operation of the library, and what it needs.
struct Task {
  // Begins it; tells the end once, on any thread, unless it fails itself. The work, when it has
  // one, is performed by who waits for it.
  using Begin = std::function<int(yard_comm*, const Ending& end, yard_work** work, char** error)>;

  yard_operation operation = {};
  std::vector<std::uint64_t> counts;  // of uneven ones
  std::vector<std::uint64_t> receive_counts;
  std::vector<at::Tensor> keep;  // the memory of input and output
  std::function<void()> finish;  // when it is done, on any thread; may be empty
  Begin begin;                   // of what is not an `operation`
  // Of what `begin` only puts where others must begin it: whether nobody has, so that no time-out
  // of the library's holds. May be empty. From any thread, and after the task's end.
  std::function<bool()> is_unbegun;

  const yard_operation* described(Milliseconds timeout) {
    operation.counts = counts.data();
    operation.counts_size = counts.size();
    operation.receive_counts = receive_counts.data();
    operation.receive_counts_size = receive_counts.size();
    operation.timeout_ms = timeout.count();
    return &operation;
  }

  int issue(yard_comm* comm, Milliseconds timeout, const Ending& end, yard_work** work,
            char** error) {
    if (begin) {
      return begin(comm, end, work, error);
    }
    const int code = yard_comm_issue(comm, described(timeout), work, error);
    if (code == YARD_OK) {
      yard_work_on_done(*work, end.told, end.context);
    }
    return code;
  }
};

class YardWork final : public FutureWork {
 public:
  YardWork(const Header& header, std::vector<Task> tasks, std::vector<at::Tensor> outputs)
      : FutureWork(header), tasks_(std::move(tasks)), outputs_(std::move(outputs)) {}
  ~YardWork() override {
    for (yard_work* part : parts_) {
      yard_work_free(part);
    }
  }

  // Begins all of it. Throws what is known at once.
  void issue(yard_comm* comm) {
    open_ = tasks_.size() + 1;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      yard_work* part = nullptr;
      char* error = nullptr;
      auto self = c10::intrusive_ptr<YardWork>::unsafe_reclaim_from_nonowning(this);
      void* context = self.release();  // told() takes it back
      const int code = tasks_[i].issue(comm, header().timeout, {told, context}, &part, &error);
      if (code != YARD_OK) {
        c10::intrusive_ptr<YardWork>::reclaim(static_cast<YardWork*>(context));
        const std::string text = taken(error);
        part_is_done(code, text, tasks_.size() - i + 1);
        fail(code, text);
      }
      if (part != nullptr) {
        parts_.push_back(part);
      }
      if (tasks_[i].is_unbegun) {
        unbegun_.push_back(tasks_[i].is_unbegun);
      }
    }
    part_is_done(YARD_OK, "", 1);
  }

  // Performs all of it on this thread, and throws its error.
  void run(yard_comm* comm) {
    open_ = 1;
    for (Task& task : tasks_) {
      char* error = nullptr;
      const int code = yard_comm_run(comm, task.described(header().timeout), &error);
      check(code, error);
    }
    part_is_done(YARD_OK, "", 1);
  }

  // kNoTimeout: that of the operation.
  bool wait(Milliseconds timeout) override {
    const bool is_bounded = timeout != kNoTimeout && timeout < header().timeout;
    if (!is_bounded && !isCompleted()) {
      for (yard_work* part : parts_) {
        yard_work_wait(part, nullptr);
      }
      wait_for_begin();
    }
    wait_for_end(is_bounded ? std::optional(timeout) : std::nullopt);
    return true;
  }

  FuturePtr getFuture() override {
    auto future = FutureWork::getFuture();
    if (!unbegun_.empty() && !is_reminded_.exchange(true)) {
      auto self = c10::intrusive_ptr<YardWork>::unsafe_reclaim_from_nonowning(this);
      Reminder::get().add(
          [self, end = Clock::now() + header().timeout] { return self->look(end); });
    }
    return future;
  }

  std::vector<at::Tensor> result() override { return outputs_; }

 private:
  using Clock = std::chrono::steady_clock;

  c10::IValue value() override { return c10::IValue(outputs_); }

  // Until the library's time-outs hold for all of it, or for as long as they would.
  void wait_for_begin() {
    const auto end = Clock::now() + header().timeout;
    while (is_unbegun()) {
      if (Clock::now() >= end) {
        std::rethrow_exception(not_begun());
      }
      std::unique_lock<std::mutex> lock(mutex_);
      cv_.wait_for(lock, Reminder::kLook, [&] { return completed_; });
    }
  }

  // The same for who waits by the future. True when there is nothing more to look at.
  bool look(Clock::time_point end) {
    if (!is_unbegun()) {
      return true;
    }
    if (Clock::now() < end) {
      return false;
    }
    settle_later(not_begun());
    return true;
  }

  bool is_unbegun() {
    return !isCompleted() && std::ranges::any_of(unbegun_, [](const auto& one) { return one(); });
  }

  std::exception_ptr not_begun() const {
    return exception_of(YARD_DEADLINE, std::string(header().title) + " was not begun within " +
                                           std::to_string(header().timeout.count()) +
                                           " ms: its gradient lies in a fusion buffer that is not "
                                           "full; call flush() before you wait for it");
  }

  static void told(void* context, int code, const char* message) {
    const auto self = c10::intrusive_ptr<YardWork>::reclaim(static_cast<YardWork*>(context));
    self->part_is_done(code, message, 1);
  }

  void part_is_done(int code, const std::string& message, std::size_t parts) {
    if (code != YARD_OK) {
      const std::lock_guard<std::mutex> lock(error_mutex_);
      error_ = error_ ? error_ : exception_of(code, message);
    }
    if (open_.fetch_sub(parts) == parts) {
      end();
    }
  }

  void end() {
    std::exception_ptr error = error_;  // nobody writes it any more
    try {
      for (const Task& task : tasks_) {
        if (!error && task.finish) {
          task.finish();
        }
      }
    } catch (...) {
      error = std::current_exception();
    }
    tasks_.clear();
    end_for_all(error);
  }

  std::vector<Task> tasks_;
  std::vector<at::Tensor> outputs_;
  std::vector<yard_work*> parts_;
  std::vector<std::function<bool()>> unbegun_;
  std::atomic<bool> is_reminded_{false};
  std::atomic<std::size_t> open_{0};  // parts, and one while they are being issued
  std::mutex error_mutex_;
  std::exception_ptr error_;  // the first one, until end()
};

}  // namespace trainyard::torch_shim
