// SPDX-License-Identifier: Apache-2.0
// All ranks of an operation at once, in memory and on real values: what the executor would do, in
// its order, without a transport. Tests ask it whether schedules are right; it says what is wrong
// with one: messages that do not match, bytes that were never written, ranks that wait for each
// other, memory that two ranks use at once. Sums only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "comm/schedule/schedule.h"

namespace trainyard::comm {

struct Cell {
  float value = 0;
  bool is_known = false;  // somebody wrote it
  bool is_final = false;  // the result of a step with `finish`, or a copy of it
};

// One rank: its steps, and its buffers, which overlap when the operation is in place.
struct SimulatedRank {
  Schedule schedule;
  std::vector<Cell> memory;
  std::uint64_t input_at = 0;  // where kInput begins in `memory`
  std::uint64_t output_at = 0;
};

struct Conditions {
  std::uint64_t pieces = 1;  // ignored where `longest` is 0
  std::uint64_t room = 1;    // messages that a rank can have sent and not all have received
};

struct Traffic {
  std::vector<std::uint64_t> elements;  // sent or written elsewhere by each rank, per receiver
  std::vector<std::uint64_t> messages;
};

// Performs the schedules on the memories. kConflict: a message of another length, level or piece
// than expected, or one that nobody received; kCorrupt: outside a buffer, not written yet, combined
// after it was final, or used by two ranks at once; kDeadline: all wait, with a picture of who
// waits for whom.
Result<Traffic> simulate(std::vector<SimulatedRank>& ranks, const Conditions& conditions);

// The messages of this rank's schedule that need room at once, as schedule.h has it.
std::uint64_t most_in_flight(const Schedule& schedule);

}  // namespace trainyard::comm
