// SPDX-License-Identifier: Apache-2.0
// An operation on its way: what was asked, and its end. The queue (collectives) or the mailbox
// (send and receive) completes it once; anyone may wait.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "comm/communicator.h"
#include "comm/run/check.h"

namespace trainyard::comm {

// Who brings operations to their end, on the thread that waits when it can.
class Runner {
 public:
  virtual ~Runner() = default;
  // Returns when `work` is done. Not called for one that is: a Work may outlive its runner, which
  // completes all of its works before it ends.
  virtual void wait_for(Work::State& work) = 0;
};

struct Work::State {
  Operation operation;
  Checked checked;
  std::uint64_t sequence = 0;
  Runner* runner = nullptr;

  bool is_done() const { return done_.load(std::memory_order_acquire); }
  const Result<void>& result() const { return result_; }  // only when done
  // Once. Calls those that want to know, on this thread; no lock of the caller may be held.
  void complete(Result<void> result);
  void on_done(std::function<void(const Result<void>&)> told);

 private:
  std::atomic<bool> done_ = false;
  Result<void> result_;  // written before done_
  Mutex mutex_;
  std::vector<std::function<void(const Result<void>&)>> told_ GUARDED_BY(mutex_);
};

}  // namespace trainyard::comm
