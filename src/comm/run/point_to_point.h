// SPDX-License-Identifier: Apache-2.0
// send and receive of one communicator, beside its collectives, on a Transport of their own: which
// thread moves the messages. One at a time drives the Mailbox: a caller that waits, looking at full
// speed, or else the helper thread, while anything is open.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "comm/health/fault.h"
#include "comm/health/recorder.h"
#include "comm/run/check.h"
#include "comm/run/mailbox.h"
#include "comm/run/work.h"
#include "comm/transport/transport.h"

namespace trainyard::comm {

class PointToPoint final : public Runner {
 public:
  // All outlive it. The recorder is its own: its numbers are not those of the collectives.
  PointToPoint(Transport& transport, Fault& fault, Recorder& recorder, Mailbox::Setting setting);
  // Completes what was issued. When nothing has moved for kParting, and all that is open waits for
  // ranks that have not come for it, that is a fault: they may wait for this rank.
  ~PointToPoint() override;

  static constexpr std::chrono::seconds kParting{5};

  // The error of the fault when one was raised.
  Result<std::shared_ptr<Work::State>> issue(Operation operation, Checked checked);
  Result<void> run(Operation operation, Checked checked);
  void wait_for(Work::State& work) override;

 private:
  using Issued = std::pair<std::shared_ptr<Work::State>, std::chrono::steady_clock::time_point>;

  Result<std::shared_ptr<Work::State>> post(Operation operation, Checked checked, bool needs_help);
  // With the turn taken: until `work` is done; or (null) until nothing is open, or, when it
  // `yields`, a caller waits. Gives the turn back.
  void drive(const Work::State* work, bool yields);
  bool drive_once();
  void complete(const std::vector<std::shared_ptr<Work::State>>& works, const Result<void>& result);
  void pause(Patience patience);
  void give_turn_back();  // the mutex is held
  void help(const std::stop_token& stop);

  Transport& transport_;
  Fault& fault_;
  Recorder& recorder_;
  std::string name_;
  std::atomic<bool> is_leaving_ = false;
  Mailbox mailbox_;                               // this and the next: of the thread that drives
  std::chrono::steady_clock::time_point looked_;  // at the deadlines
  bool has_moved_ = false;                        // something, since it looked
  std::chrono::steady_clock::time_point moved_;   // as of a look; or this rank was not leaving
  Mutex mutex_;
  ConditionVariable work_;  // for the helper
  ConditionVariable turn_;  // for waiting callers
  std::vector<Issued> issued_ GUARDED_BY(mutex_);
  std::uint64_t last_ GUARDED_BY(mutex_) = 0;
  bool is_driven_ GUARDED_BY(mutex_) = false;
  bool is_busy_ GUARDED_BY(mutex_) = false;  // something is open in the mailbox
  int waiting_ GUARDED_BY(mutex_) = 0;
  std::jthread helper_ GUARDED_BY(mutex_);  // started when first needed
};

}  // namespace trainyard::comm
