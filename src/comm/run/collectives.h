// SPDX-License-Identifier: Apache-2.0
// Performs checked collectives, one at a time: chooses the algorithm, finds or makes the plan,
// decides with the other ranks whether their buffers can be used directly, executes, records.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "comm/communicator.h"
#include "comm/health/fault.h"
#include "comm/health/progress.h"
#include "comm/health/recorder.h"
#include "comm/run/check.h"
#include "comm/run/executor.h"
#include "comm/run/plan.h"
#include "comm/schedule/choose.h"
#include "comm/transport/transport.h"

namespace trainyard::comm {

class Collectives {
 public:
  // What it works with; all outlive it. `board` may be null.
  struct Parts {
    Transport& transport;
    Fault& fault;
    Recorder& recorder;
    ProgressBoard* board;
    const World& world;
    const Choices& choices;  // the same on all ranks; for the beginning
    Limits limits;           // as well
    std::string name;
    std::chrono::milliseconds timeout;
  };
  explicit Collectives(Parts parts);

  void note_issued(std::uint64_t sequence, const Checked& checked);
  void note_started(std::uint64_t sequence);
  // In the order of the numbers, by one thread at a time.
  Result<void> perform(std::uint64_t sequence, const Operation& operation, const Checked& checked,
                       Patience patience);
  // For the operations that follow; when none is under way.
  void use(const Choices& choices);
  // From any thread: whether the kernel reads private memory of ranks for each other; false before
  // an operation has asked.
  bool copies_once() const { return copies_once_.load(std::memory_order_relaxed); }
  // From any thread: the operation that is being performed is waited for.
  void hurry() { executor_.set_patience(Patience::kSpin); }

 private:
  Result<void> execute(const Task& task, const Operation& operation, const Checked& checked);
  const Plan& plan_for(const Choice& choice, const Task& task, const Checked& checked);

  Parts parts_;
  Executor executor_;
  Chooser chooser_;
  MeshBuffers mesh_;
  bool may_be_copied_ = true;              // until a meeting says that the kernel does not
  std::atomic<bool> copies_once_ = false;  // since one said that it does
  Limits limits_;
  PlanCache plans_;
  // The last plan of an uneven operation, and the rest of what it depends on.
  struct Uneven {
    PlanKey key;
    std::vector<std::uint64_t> counts;
    std::vector<std::uint64_t> receive_counts;
    Shift shift;
    Plan plan;
  };
  std::optional<Uneven> uneven_;
};

}  // namespace trainyard::comm
