// SPDX-License-Identifier: Apache-2.0
// An operation on its way: what was asked, and its end. The queue (collectives) or the mailbox
// (send and receive) completes it once; anyone may wait.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "comm/communicator.h"
#include "comm/run/check.h"

namespace trainyard::comm {

// Between the end of a runner and the threads that wait in it: its works outlive it, and so does
// this.
class Gate {
 public:
  bool enter();  // false when the runner has ended, with all of its works done
  void leave();
  void close();  // nobody enters any more; returns when all have left

 private:
  Mutex mutex_;
  ConditionVariable left_;
  int inside_ GUARDED_BY(mutex_) = 0;
  bool is_closed_ GUARDED_BY(mutex_) = false;
};

// Who brings operations to their end, on the thread that waits when it can. It closes its gate when
// it has completed all of its works, and then ends.
class Runner {
 public:
  virtual ~Runner() = default;
  // Returns when `work` is done. From within the gate.
  virtual void wait_for(Work::State& work) = 0;
  const std::shared_ptr<Gate>& gate() const { return gate_; }

 private:
  std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
};

struct Work::State {
  Operation operation;
  Checked checked;
  std::uint64_t sequence = 0;

  void belong_to(Runner& runner) {
    runner_ = &runner;
    gate_ = runner.gate();
  }
  void wait();  // on any thread, also when its runner is about to end, or has
  bool is_done() const { return done_.load(std::memory_order_acquire); }
  const Result<void>& result() const { return result_; }  // only when done
  // Once. Calls those that want to know, on this thread; no lock of the caller may be held.
  void complete(Result<void> result);
  void on_done(std::function<void(const Result<void>&)> told);

 private:
  Runner* runner_ = nullptr;
  std::shared_ptr<Gate> gate_;
  std::atomic<bool> done_ = false;
  Result<void> result_;  // written before done_
  Mutex mutex_;
  std::vector<std::function<void(const Result<void>&)>> told_ GUARDED_BY(mutex_);
};

}  // namespace trainyard::comm
