// SPDX-License-Identifier: Apache-2.0
// What a communicator is put together from: create() joins processes and makes these, tests make
// them for threads of one process.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "comm/communicator.h"
#include "comm/health/fault.h"
#include "comm/health/progress.h"
#include "comm/health/recorder.h"
#include "comm/run/collectives.h"
#include "comm/transport/transport.h"

namespace trainyard::comm {

// Destroyed from the last member to the first, once all operations have ended.
struct Communicator::Parts {
  std::string name;
  World world;
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  std::unique_ptr<Fault> fault;  // its on_raise is set by from_parts
  std::shared_ptr<void> memory;  // what the transports refer to: segments, registries
  std::unique_ptr<Transport> collectives;
  std::unique_ptr<Transport> point_to_point;
  std::unique_ptr<Recorder> recorder;
  std::unique_ptr<Recorder> point_to_point_recorder;
  Choices choices;
  std::optional<Limits> limits;  // of all ranks; the transport's own when it is the same on all
  std::function<Result<std::shared_ptr<std::byte[]>>(std::size_t)> allocate;
  // Tells the other ranks; called once, from any thread, before anyone gets the error.
  std::function<void(const Error&)> spread;
  // Writes the flight record down for people: after `spread`, and, without a fault, when SIGUSR2
  // asks for it. One call at a time.
  std::function<void(const std::optional<Error>&, const std::string& record)> dump;
  std::shared_ptr<ProgressBoard> board;  // may be null; the watchdog
};

}  // namespace trainyard::comm
