// SPDX-License-Identifier: Apache-2.0
// An operation of another backend under the eyes of the library: it has a number that all ranks
// compare, a time-out that names who is missing, and it ends when the library says that a rank died
// or disagrees, whatever the other backend does.
#pragma once

#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "base.h"
#include "completer.h"
#include "launcher.h"
#include "work.h"

namespace trainyard::torch_shim {

using Clock = std::chrono::steady_clock;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

struct Numbered {
  std::uint64_t sequence = 0;
  yard_elsewhere what = {};
};

class GuardedWork final : public c10d::Work {
 public:
  // How long the library may take to say why another backend failed.
  static constexpr Milliseconds kExplanation{1500};

  // `is_watched`: the inner future tells its end. Others are looked at by the monitor (on GPUs), or
  // end with wait() (send and receive).
  GuardedWork(const Header& header, CommunicatorPtr communicator, bool is_watched)
      : c10d::Work(header.rank, header.type, header.title),
        header_(header),
        communicator_(std::move(communicator)),
        is_watched_(is_watched),
        begun_(Clock::now()) {}
  ~GuardedWork() override {
    if (agreement_ != nullptr) {
      yard_work_free(agreement_);
    }
  }

  // Launches it on `launcher` once all ranks have come to the same operation.
  void launch_when_agreed(const yard_elsewhere& what, std::shared_ptr<Launcher> launcher,
                          std::function<WorkPtr()> call) {
    launcher_ = std::move(launcher);
    call_ = std::move(call);
    char* error = nullptr;
    const int code =
        yard_comm_agree(communicator_->get(), &what, header_.timeout.count(), &agreement_, &error);
    check(code, error);
    numbers_ = {{yard_work_sequence(agreement_), what}};
    auto self = c10::intrusive_ptr<GuardedWork>::unsafe_reclaim_from_nonowning(this);
    yard_work_on_done(agreement_, agreed, self.release());
  }

  // It was launched already, under these numbers.
  void follow(WorkPtr inner, std::vector<Numbered> numbers) {
    numbers_ = std::move(numbers);
    inner_ = std::move(inner);
  }

  bool wait(Milliseconds timeout) override {
    if (!is_watched_) {
      return wait_inner(timeout);
    }
    if (timeout == kNoTimeout && agreement_ != nullptr) {
      yard_work_wait(agreement_, nullptr);
    }
    std::unique_lock<std::mutex> lock(mutex_);
    if (timeout == kNoTimeout) {
      cv_.wait(lock, [&] { return completed_; });
    } else if (!cv_.wait_for(lock, timeout, [&] { return completed_; })) {
      fail(YARD_DEADLINE, std::string(header_.title) + " was not complete after the " +
                              std::to_string(timeout.count()) + " ms that wait() was given");
    }
    if (exception_) {
      std::rethrow_exception(exception_);
    }
    return true;
  }

  void synchronize() override { inner_->synchronize(); }
  std::vector<at::Tensor> result() override {
    wait(kNoTimeout);
    return inner_->result();
  }
  std::uint64_t getSequencenumber() const override { return header_.sequence; }

  FuturePtr getFuture() override {
    if (!is_watched_) {
      return inner_->getFuture();  // it knows the streams
    }
    bool is_over = false;
    {
      const std::lock_guard<std::mutex> lock(future_mutex_);
      if (future_ != nullptr) {
        return future_;
      }
      future_ = new_future();
      is_over = is_over_;
    }
    if (is_over) {
      complete_future();
    }
    return future_;
  }

  // For the monitor. True when there is nothing more to look at.
  bool look(const std::exception_ptr& fault) {
    if (is_over()) {
      return true;
    }
    if (fault) {
      if (is_one_sided()) {
        inner_->abort();  // wakes who waits in it
      }
      end(fault);
      return true;
    }
    if (!is_watched_ && inner_->isCompleted()) {
      end(nullptr);
      return true;
    }
    const auto now = Clock::now();
    if (const auto failure = inner_failure(); !failure.empty() && now > failed_ + kExplanation) {
      yard_comm_abort(communicator_->get(), failure.c_str());
    } else if (now > begun_ + header_.timeout && !numbers_.empty()) {
      const Numbered& one = numbers_.front();
      yard_comm_give_up(communicator_->get(), one.sequence, &one.what, header_.timeout.count(),
                        nullptr);
    }
    return false;
  }

 private:
  static void agreed(void* context, int code, const char* message) {
    auto self = c10::intrusive_ptr<GuardedWork>::reclaim(static_cast<GuardedWork*>(context));
    if (code != YARD_OK) {
      self->end(exception_of(code, message));
    } else if (!self->launcher_->post([self] { self->launch(); })) {
      self->end(exception_of(YARD_CANCELLED, "the process group was shut down"));
    }
  }

  void launch() {
    try {
      inner_ = call_();
    } catch (...) {
      end(std::current_exception());
      return;
    }
    call_ = nullptr;
    follow_inner_future();
  }

  void follow_inner_future() {
    auto self = c10::intrusive_ptr<GuardedWork>::unsafe_reclaim_from_nonowning(this);
    try {
      inner_future_ = inner_->getFuture();
    } catch (const c10::Error&) {  // some of Gloo's have none
      Completer::get().post([self] { self->follow_by_waiting(); });
      return;
    }
    inner_future_->addCallback([self](c10::ivalue::Future& inner) {
      if (inner.hasError()) {
        self->inner_failed(inner.tryRetrieveErrorMessage());
      } else {
        self->end(nullptr);
      }
    });
  }

  void follow_by_waiting() {
    try {
      inner_->wait(kNoTimeout);
      end(nullptr);
    } catch (const std::exception& thrown) {
      inner_failed(thrown.what());
    }
  }

  bool is_one_sided() const {
    return header_.type == c10d::OpType::SEND || header_.type == c10d::OpType::RECV;
  }

  bool is_over() {
    const std::lock_guard<std::mutex> lock(future_mutex_);
    return is_over_;
  }

  std::string inner_failure() {
    const std::lock_guard<std::mutex> lock(future_mutex_);
    return failure_;
  }

  void inner_failed(const std::string& text) {
    const std::lock_guard<std::mutex> lock(future_mutex_);
    failure_ = text.substr(0, text.find("\nException raised from"));  // without the stack
    failed_ = Clock::now();
  }

  bool wait_inner(Milliseconds timeout) {
    try {
      inner_->wait(timeout);
    } catch (const std::exception& thrown) {
      const std::string why = explanation();
      const auto error = exception_of(YARD_UNAVAILABLE, why.empty() ? thrown.what() : why);
      end(error);
      std::rethrow_exception(error);
    }
    if (is_one_sided()) {
      end(nullptr);
    }
    return true;
  }

  // What the library says of a failure, once it knows.
  std::string explanation() const {
    const auto deadline = Clock::now() + kExplanation;
    char* text = nullptr;
    while (yard_comm_fault(communicator_->get(), &text) == YARD_OK) {
      if (Clock::now() > deadline) {
        return "";
      }
      std::this_thread::sleep_for(Milliseconds(10));
    }
    return taken(text);
  }

  void end(const std::exception_ptr& error) {
    bool is_wanted = false;
    {
      const std::lock_guard<std::mutex> lock(future_mutex_);
      if (is_over_) {
        return;
      }
      is_over_ = true;
      is_wanted = future_ != nullptr;
    }
    for (const Numbered& one : numbers_) {
      yard_comm_end(communicator_->get(), one.sequence, error ? 0 : 1);
    }
    finish(error);
    if (is_wanted) {
      auto self = c10::intrusive_ptr<GuardedWork>::unsafe_reclaim_from_nonowning(this);
      Completer::get().post([self] { self->complete_future(); });
    }
  }

  void complete_future() {
    wait_until_finished();
    if (exception_) {
      future_->setError(exception_);
    } else {
      future_->markCompleted(inner_future_ != nullptr ? inner_future_->value()
                                                      : c10::IValue(std::vector<at::Tensor>()));
    }
  }

  void wait_until_finished() {
    std::unique_lock<std::mutex> lock(mutex_);
    cv_.wait(lock, [&] { return completed_; });
  }

  Header header_;
  CommunicatorPtr communicator_;
  bool is_watched_;
  yard_work* agreement_ = nullptr;
  std::shared_ptr<Launcher> launcher_;
  std::function<WorkPtr()> call_;
  WorkPtr inner_;  // once it is launched
  Clock::time_point begun_;
  std::vector<Numbered> numbers_;
  std::mutex future_mutex_;
  FuturePtr inner_future_;  // null when the inner Work has none
  FuturePtr future_;
  std::string failure_;  // of the inner backend
  Clock::time_point failed_{};
  bool is_over_ = false;
};

}  // namespace trainyard::torch_shim
