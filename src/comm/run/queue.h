// SPDX-License-Identifier: Apache-2.0
// The collectives of one communicator, in the order of issue, one at a time. Whoever is there first
// runs the next one: a caller that blocks (run, wait), looking for messages at full speed, or the
// helper thread, which sleeps between them and takes no core from the computation.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "base/result.h"
#include "comm/health/fault.h"
#include "comm/run/check.h"
#include "comm/run/collectives.h"
#include "comm/run/work.h"

namespace trainyard::comm {

class Queue final : public Runner {
 public:
  // Both outlive it.
  Queue(Collectives& collectives, Fault& fault, std::string name);
  ~Queue() override;  // performs what was issued

  // The error of the fault when one was raised.
  Result<std::shared_ptr<Work::State>> issue(Operation operation, Checked checked);
  Result<void> run(Operation operation, Checked checked);
  void wait_for(Work::State& work) override;
  // Gives the next number to an operation that is performed elsewhere, and notes it as begun.
  std::uint64_t note_elsewhere(const Checked& checked);

 private:
  std::shared_ptr<Work::State> take();  // the next one, with the turn; the mutex is held
  void finish();                        // gives the turn back; the mutex is held
  void perform(Work::State& work, Patience patience);
  std::shared_ptr<Work::State> push(Operation operation, Checked checked);
  void help(const std::stop_token& stop);

  Collectives& collectives_;
  Fault& fault_;
  std::string name_;
  Mutex mutex_;
  ConditionVariable work_;  // for the helper: there is something to do
  ConditionVariable turn_;  // for waiting callers: something was done
  std::deque<std::shared_ptr<Work::State>> pending_ GUARDED_BY(mutex_);
  std::uint64_t last_ GUARDED_BY(mutex_) = 0;  // sequence number given
  bool is_running_ GUARDED_BY(mutex_) = false;
  int waiting_ GUARDED_BY(mutex_) = 0;
  std::jthread helper_ GUARDED_BY(mutex_);  // started with the first issue()
};

}  // namespace trainyard::comm
