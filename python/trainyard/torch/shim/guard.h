// SPDX-License-Identifier: Apache-2.0
// How one operation of another backend is put under the eyes of the library: what is said of it,
// its number, and the Work that stands for it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "membership.h"
#include "monitor.h"
#include "splits.h"
#include "tensors.h"

namespace trainyard::torch_shim {

// What ranks must agree on, and what only this one needs.
struct Description {
  c10d::OpType type = c10d::OpType::UNKNOWN;
  yard_elsewhere what = {};
  Milliseconds timeout = c10d::kUnsetTimeout;
  bool is_cpu = true;
};

inline Description describe(const Description& begun, const Tensors& tensors) {
  Description out = begun;
  for (const at::Tensor& tensor : tensors) {
    const Element element = moved_element(tensor);
    out.what.dtype = element.dtype;
    out.what.count += static_cast<std::uint64_t>(tensor.numel()) * element.units;
    out.what.bytes += tensor.nbytes();
    out.is_cpu = out.is_cpu && tensor.device().is_cpu();
  }
  return out;
}

// The options for the other backend: there is always a Work to look at, and the library's time-out
// comes first.
template <typename Options>
Options for_inner(const Options& options) {
  Options own = options;
  own.asyncOp = true;
  if (own.timeout.count() > 0) {
    own.timeout += kExplanation;
  }
  return own;
}

class Guard {
 public:
  Guard(int rank, std::string name, CommunicatorPtr communicator, std::function<void()> abort_inner)
      : rank_(rank),
        name_(std::move(name)),
        membership_(std::move(communicator)),
        monitor_(std::make_unique<Monitor>(membership_.own(), std::move(abort_inner))) {}

  // In both, `call` may be called later, on another thread: it holds what it needs.
  WorkPtr collective(const Description& what, Milliseconds timeout, std::function<WorkPtr()> call) {
    ++sequence_;
    const Milliseconds own = what.timeout.count() > 0 ? what.timeout : timeout;
    if (!what.is_cpu || is_coalescing_) {
      return begin_at_once(what, own, call, what.is_cpu);
    }
    auto work = new_work(what, own);
    work->launch_when_agreed(what.what, launcher_, std::move(call));
    monitor_->add(work);
    return work;
  }

  // A send begins at once; so does a receive on a GPU, or one of several, which is compared beside.
  WorkPtr one_sided(Description what, Milliseconds timeout, std::function<WorkPtr()> call) {
    const bool is_on_cpu = std::exchange(what.is_cpu, false);  // it ends with wait()
    const auto undecided = what.what.kind == YARD_RECEIVE ? receiving_.enter(what.what) : nullptr;
    if (what.what.kind == YARD_SEND || !is_on_cpu || is_coalescing_) {
      return begin_at_once(what, timeout, call, is_on_cpu);
    }
    auto work = new_work(what, timeout);
    auto begin = [undecided, own = std::move(call)] { return own(); };  // dropped when it has begun
    work->launch_when_agreed(what.what, launcher_, std::move(begin), receives_);
    monitor_->add(work);
    return work;
  }

  // Nobody knows whose send it will be.
  WorkPtr receive_from_any(Description what, Milliseconds timeout,
                           const std::function<WorkPtr()>& call) {
    char* error = nullptr;
    const int code = yard_comm_fault(usable()->get(), &error);
    check(code, error);
    const auto undecided = receiving_.enter(what.what);
    WorkPtr inner = call();
    if (is_coalescing_) {
      return inner;
    }
    what.is_cpu = false;
    auto work = new_work(what, timeout);
    work->follow_from_any(std::move(inner), undecided);
    monitor_->add(work);
    return work;
  }

  // Of an uneven all-to-all on the CPU, right before it is issued.
  std::shared_ptr<const Splits> tell(Splits own, Milliseconds timeout) const {
    return tell_splits(usable()->get(), std::move(own), timeout);
  }

  // The library's own, which knows who is missing.
  void barrier(Milliseconds timeout) {
    ++sequence_;
    const yard_operation operation{.kind = YARD_BARRIER, .root = -1, .timeout_ms = timeout.count()};
    char* error = nullptr;
    const int code = yard_comm_run(usable()->get(), &operation, &error);
    check(code, error);
  }

  void start_coalescing() {
    is_coalescing_ = true;
    coalesced_ = {};
    are_coalesced_on_cpu_ = true;
  }
  WorkPtr end_coalescing(Milliseconds timeout, const std::function<WorkPtr()>& end_inner) {
    is_coalescing_ = false;
    WorkPtr inner;
    try {
      inner = end_inner();
    } catch (...) {
      fail_coalesced();
      throw;
    }
    return follow({.type = c10d::OpType::COALESCED, .is_cpu = are_coalesced_on_cpu_}, timeout,
                  std::move(inner), std::exchange(coalesced_, {}));
  }
  void give_up_coalescing(const std::function<void()>& end_inner) {
    if (std::exchange(is_coalescing_, false)) {
      fail_coalesced();
      perform_whatever_it_throws("the wrapped backend did not end its coalescing", end_inner);
    }
  }

  void abort(const std::string& reason) { torch_shim::abort(membership_, reason); }
  // Leaves the group, whatever `shut_down_inner` throws.
  void shut_down(const std::function<void()>& shut_down_inner) {
    launcher_->stop();
    monitor_.reset();
    try {
      shut_down_inner();
    } catch (...) {
      membership_.leave();
      throw;
    }
    membership_.leave();
  }
  std::string flight_record() const { return flight_record_of(membership_); }
  std::uint64_t sequence() const { return sequence_; }

 private:
  const CommunicatorPtr& usable() const {
    if (membership_.own() == nullptr) {
      fail(YARD_CANCELLED, name_ + ": the process group was shut down");
    }
    return membership_.own();
  }

  void fail_coalesced() {
    for (const Numbered& number : std::exchange(coalesced_, {})) {
      if (membership_.own() != nullptr) {
        yard_comm_end(membership_.own()->get(), number.sequence, &number.what, 0);
      }
    }
  }

  // The streams of a GPU are the caller's: launched on this thread, without waiting for others.
  WorkPtr begin_at_once(const Description& what, Milliseconds timeout,
                        const std::function<WorkPtr()>& call, bool are_on_cpu) {
    const Numbered number = begin(what.what, timeout);
    WorkPtr inner;
    try {
      inner = call();
    } catch (...) {
      yard_comm_end(membership_.own()->get(), number.sequence, &number.what, 0);
      throw;
    }
    if (is_coalescing_) {
      are_coalesced_on_cpu_ = are_coalesced_on_cpu_ && are_on_cpu;
      coalesced_.push_back(number);
      return inner;
    }
    return follow(what, timeout, std::move(inner), {number});
  }

  // Without waiting for other ranks; a disagreement with them comes as a fault.
  Numbered begin(const yard_elsewhere& what, Milliseconds timeout) const {
    if (what.kind == YARD_SEND || what.kind == YARD_RECEIVE) {
      yard_work* agreement = nullptr;
      const Numbered number = agree(*usable(), what, timeout, &agreement);
      yard_work_free(agreement);
      return number;
    }
    Numbered number{.sequence = 0, .what = what};
    char* error = nullptr;
    const int code = yard_comm_begin(usable()->get(), &what, &number.sequence, &error);
    check(code, error);
    return number;
  }

  c10::intrusive_ptr<GuardedWork> new_work(const Description& what, Milliseconds timeout) const {
    return c10::make_intrusive<GuardedWork>(Header{.rank = rank_,
                                                   .type = what.type,
                                                   .title = nullptr,
                                                   .sequence = sequence_,
                                                   .timeout = timeout},
                                            usable(), what.is_cpu);
  }

  WorkPtr follow(const Description& what, Milliseconds timeout, WorkPtr inner,
                 std::vector<Numbered> numbers) {
    auto work = new_work(what, timeout);
    work->follow(std::move(inner), std::move(numbers));
    monitor_->add(work);
    return work;
  }

  int rank_;
  std::string name_;
  Membership membership_;
  std::shared_ptr<Launcher> launcher_ = std::make_shared<Launcher>();  // also of works under way
  const std::shared_ptr<GuardedWork::Receives> receives_ =
      std::make_shared<GuardedWork::Receives>();
  Receiving receiving_;
  std::unique_ptr<Monitor> monitor_;
  std::uint64_t sequence_ = 0;
  bool is_coalescing_ = false;
  std::vector<Numbered> coalesced_;
  bool are_coalesced_on_cpu_ = true;
};

}  // namespace trainyard::torch_shim
