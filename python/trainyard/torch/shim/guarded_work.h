// SPDX-License-Identifier: Apache-2.0
// An operation of another backend under the eyes of the library: it has a number that all ranks
// compare, a time-out that names who is missing, and it ends when the library says that a rank died
// or disagrees, whatever the other backend does.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <vector>

#include "base.h"
#include "completer.h"
#include "future_work.h"
#include "launcher.h"
#include "numbered.h"
#include "turns.h"
#include "undecided.h"

namespace trainyard::torch_shim {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

class GuardedWork final : public FutureWork {
 public:
  using Receives = Turns<c10::intrusive_ptr<GuardedWork>>;

  // `is_watched`: the inner future tells its end. Others are looked at by the monitor (on GPUs), or
  // end with wait() (send and receive).
  GuardedWork(const Header& header, CommunicatorPtr communicator, bool is_watched)
      : FutureWork(header),
        communicator_(std::move(communicator)),
        is_watched_(is_watched),
        begun_(Clock::now()) {}

  // Launches it on `launcher` once all ranks have come to the same operation; a receive, which has
  // its turn in `receives`, once its send has come and is the same.
  void launch_when_agreed(const yard_elsewhere& what, std::shared_ptr<Launcher> launcher,
                          std::function<WorkPtr()> call,
                          const std::shared_ptr<Receives>& receives = nullptr) {
    launcher_ = std::move(launcher);
    call_ = std::move(call);
    receives_ = receives;
    const auto issue = [&] { numbers_.agree_once(*communicator_, what, header().timeout); };
    auto self = c10::intrusive_ptr<GuardedWork>::unsafe_reclaim_from_nonowning(this);
    if (receives_ != nullptr) {
      receives_->enter({what.root, what.tag}, self, issue);
    } else {
      issue();
    }
    yard_work_on_done(numbers_.agreement(), agreed, self.release());
  }

  // It was launched already, under these numbers.
  void follow(WorkPtr inner, std::vector<Numbered> numbers) {
    numbers_.take(std::move(numbers));
    inner_ = std::move(inner);
    if (is_watched_) {
      follow_inner_future();
    }
  }

  // It was launched already, as a receive from any rank: compared with its send when that is known,
  // and `undecided` until then.
  void follow_from_any(WorkPtr inner, const UndecidedPtr& undecided) {
    inner_ = std::move(inner);
    from_any_ = *undecided;
    undecided_ = undecided;
  }

  bool wait(Milliseconds timeout) override {
    if (!is_watched_) {
      return wait_inner(timeout);
    }
    if (timeout == kNoTimeout && launcher_ != nullptr) {
      yard_work_wait(numbers_.agreement(), nullptr);
    }
    wait_for_end(timeout == kNoTimeout ? std::nullopt : std::optional(timeout));
    return true;
  }

  // A receive from one rank knows it before it begins.
  int sourceRank() const override {
    if (header().type == c10d::OpType::RECV && !from_any_) {
      return numbers_.first()->what.root;
    }
    const WorkPtr inner = launched();
    return inner != nullptr ? inner->sourceRank() : c10d::Work::sourceRank();
  }
  // What has not begun is on the CPU, where this does nothing.
  void synchronize() override {
    if (const WorkPtr inner = launched(); inner != nullptr) {
      inner->synchronize();
    }
  }
  std::vector<at::Tensor> result() override {
    wait(kNoTimeout);
    return launched()->result();
  }

  FuturePtr getFuture() override {
    if (is_watched_) {
      return FutureWork::getFuture();
    }
    wait_for_launch(kNoTimeout);
    return launched()->getFuture();  // it knows the streams
  }

  // For the monitor. True when there is nothing more to look at.
  bool look(const std::exception_ptr& fault) {
    if (has_ended_) {
      return true;
    }
    const WorkPtr inner = launched();
    if (fault) {
      if (header().is_one_sided() && inner != nullptr) {
        wake(*inner);
      }
      end(fault);
      return true;
    }
    if (!is_watched_ && inner != nullptr && is_complete(*inner, failure_)) {
      end(nullptr);
      return true;
    }
    const auto now = Clock::now();
    if (const auto failure = failure_.unexplained(now); !failure.empty()) {
      yard_comm_abort(communicator_->get(), failure.c_str());
    } else if (now > begun_ + header().timeout && may_be_late(inner)) {
      numbers_.give_up(*communicator_, header().timeout);
    }
    return false;
  }

 private:
  // On a thread of the library's, which the communicator's end waits for: the work, which may hold
  // the last reference to that, must not end here.
  static void agreed(void* context, int code, const char* message) {
    auto self = c10::intrusive_ptr<GuardedWork>::reclaim(static_cast<GuardedWork*>(context));
    if (self->receives_ != nullptr) {
      const yard_elsewhere what = self->numbers_.first()->what;
      self = self->receives_->next({what.root, what.tag});
    }
    if (code != YARD_OK) {
      self->end(exception_of(code, message));
      Completer::get().post([last = std::move(self)] {});
      return;
    }
    const auto launcher = self->launcher_;
    launcher->post([own = std::move(self)](bool is_open) { own->launch(is_open); });
  }

  void launch(bool is_open) {
    if (has_ended_) {
      return;
    }
    WorkPtr inner;
    try {
      if (!is_open) {
        fail(YARD_CANCELLED, "the process group was shut down before this operation began");
      }
      inner = call_();
    } catch (const std::exception& thrown) {
      tell_refusal(*communicator_, thrown.what());
      end(std::current_exception());
      return;
    }
    call_ = nullptr;
    std::unique_lock<std::mutex> lock(mutex_);
    inner_ = std::move(inner);
    lock.unlock();
    cv_.notify_all();
    if (!header().is_one_sided()) {
      follow_inner_future();
    }
  }

  WorkPtr launched() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return inner_;
  }

  // Throws what has ended it before.
  void wait_for_launch(Milliseconds timeout) {
    if (launcher_ == nullptr) {
      return;  // who made it has launched it
    }
    if (timeout == kNoTimeout) {
      yard_work_wait(numbers_.agreement(), nullptr);
    }
    std::unique_lock<std::mutex> lock(mutex_);
    const auto is_over = [&] { return inner_ != nullptr || completed_; };
    if (timeout == kNoTimeout) {
      cv_.wait(lock, is_over);
    } else if (!cv_.wait_for(lock, timeout, is_over)) {
      fail(YARD_DEADLINE, "the receive has not begun after the " + std::to_string(timeout.count()) +
                              " ms that wait() was given; it goes on");
    }
    if (exception_) {
      std::rethrow_exception(exception_);
    }
  }

  void follow_inner_future() {
    auto self = c10::intrusive_ptr<GuardedWork>::unsafe_reclaim_from_nonowning(this);
    try {
      inner_future_ = inner_->getFuture();
    } catch (const std::exception&) {  // some of Gloo's have none
      Completer::get().post([self] { self->follow_by_waiting(); });
      return;
    }
    inner_future_->addCallback([self](c10::ivalue::Future& inner) {
      if (inner.hasError()) {
        self->failure_.note(inner.tryRetrieveErrorMessage());
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
      failure_.note(thrown.what());
    }
  }

  // Whether a send or receive that is under way has ended is only known to who waits for it; before
  // that the library looks at the time itself.
  bool may_be_late(const WorkPtr& inner) const {
    return !header().is_one_sided() || (inner != nullptr && is_awaited_);
  }

  bool wait_inner(Milliseconds timeout) {
    is_awaited_ = true;
    wait_for_launch(timeout);
    try {
      launched()->wait(timeout);
      compare_with_source();
    } catch (const std::exception& thrown) {
      const auto error = explained(*communicator_, thrown);
      end(error);
      std::rethrow_exception(error);
    }
    if (header().is_one_sided()) {
      end(nullptr);
    }
    if (has_ended_) {
      wait_for_end(std::nullopt);  // which may be an error that the other backend says nothing of
    }
    return true;
  }

  void compare_with_source() {
    if (!from_any_) {
      return;
    }
    yard_elsewhere what = *from_any_;
    what.root = launched()->sourceRank();
    char* error = nullptr;
    numbers_.agree_once(*communicator_, what, header().timeout);
    std::unique_lock<std::mutex> lock(mutex_);
    undecided_ = nullptr;
    lock.unlock();
    const int code = yard_work_wait(numbers_.agreement(), &error);
    check(code, error);
  }

  void end(const std::exception_ptr& error) {
    if (has_ended_.exchange(true)) {
      return;
    }
    numbers_.end(*communicator_, !error);
    end_for_all(error);
  }

  c10::IValue value() override {
    return inner_future_ != nullptr ? inner_future_->value()
                                    : c10::IValue(std::vector<at::Tensor>());
  }

  CommunicatorPtr communicator_;
  bool is_watched_;
  std::shared_ptr<Launcher> launcher_;
  std::function<WorkPtr()> call_;
  std::shared_ptr<Receives> receives_;      // of a receive that waits for its turn
  std::optional<yard_elsewhere> from_any_;  // of a receive from any rank
  UndecidedPtr undecided_;                  // of such a one, until its source is known
  std::atomic<bool> is_awaited_{false};
  WorkPtr inner_;  // once it is launched
  Clock::time_point begun_;
  Numbers numbers_;
  FuturePtr inner_future_;  // null when the inner Work has none
  InnerFailure failure_;
  std::atomic<bool> has_ended_{false};
};

}  // namespace trainyard::torch_shim
