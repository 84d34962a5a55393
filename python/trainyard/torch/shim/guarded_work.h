// SPDX-License-Identifier: Apache-2.0
// An operation of another backend under the eyes of the library: it has a number that all ranks
// compare, a time-out that names who is missing, and it ends when the library says that a rank died
// or disagrees, whatever the other backend does.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base.h"
#include "completer.h"
#include "future_work.h"
#include "launcher.h"

namespace trainyard::torch_shim {

using Clock = std::chrono::steady_clock;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

struct Numbered {
  std::uint64_t sequence = 0;
  yard_elsewhere what = {};
};

class GuardedWork final : public FutureWork {
 public:
  // How long the library may take to say why another backend failed.
  static constexpr Milliseconds kExplanation{1500};

  // `is_watched`: the inner future tells its end. Others are looked at by the monitor (on GPUs), or
  // end with wait() (send and receive).
  GuardedWork(const Header& header, CommunicatorPtr communicator, bool is_watched)
      : FutureWork(header),
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
        yard_comm_agree(communicator_->get(), &what, header().timeout.count(), &agreement_, &error);
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
    wait_for_end(timeout == kNoTimeout ? std::nullopt : std::optional(timeout));
    return true;
  }

  void synchronize() override { inner_->synchronize(); }
  std::vector<at::Tensor> result() override {
    wait(kNoTimeout);
    return inner_->result();
  }

  FuturePtr getFuture() override {
    return is_watched_ ? FutureWork::getFuture() : inner_->getFuture();  // it knows the streams
  }

  // For the monitor. True when there is nothing more to look at.
  bool look(const std::exception_ptr& fault) {
    if (has_ended_) {
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
    } else if (now > begun_ + header().timeout && !numbers_.empty()) {
      const Numbered& one = numbers_.front();
      yard_comm_give_up(communicator_->get(), one.sequence, &one.what, header().timeout.count(),
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
    return header().type == c10d::OpType::SEND || header().type == c10d::OpType::RECV;
  }

  std::string inner_failure() {
    const std::lock_guard<std::mutex> lock(failure_mutex_);
    return failure_;
  }

  void inner_failed(const std::string& text) {
    const std::lock_guard<std::mutex> lock(failure_mutex_);
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
    if (has_ended_.exchange(true)) {
      return;
    }
    for (const Numbered& one : numbers_) {
      yard_comm_end(communicator_->get(), one.sequence, error ? 0 : 1);
    }
    end_for_all(error);
  }

  c10::IValue value() override {
    return inner_future_ != nullptr ? inner_future_->value()
                                    : c10::IValue(std::vector<at::Tensor>());
  }

  CommunicatorPtr communicator_;
  bool is_watched_;
  yard_work* agreement_ = nullptr;
  std::shared_ptr<Launcher> launcher_;
  std::function<WorkPtr()> call_;
  WorkPtr inner_;  // once it is launched
  Clock::time_point begun_;
  std::vector<Numbered> numbers_;
  FuturePtr inner_future_;  // null when the inner Work has none
  std::mutex failure_mutex_;
  std::string failure_;  // of the inner backend
  Clock::time_point failed_{};
  std::atomic<bool> has_ended_{false};
};

}  // namespace trainyard::torch_shim
