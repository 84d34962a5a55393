// SPDX-License-Identifier: Apache-2.0
// A collective operation as a value: the steps that one rank performs. decide: the functions of
// algorithms.h turn (operation, count, world, hosts) into a Schedule without knowing any transport;
// do: run/executor.h performs one over any transport; schedule/simulate.h performs all ranks' at
// once in memory, for tests, and the planner charges the same values with a cost model.
//
// There is one kind of step: gather operands, combine them, store the result, forward it. A send is
// a step without `from`, a plain receive one without `own` and `to`, a ring's "receive, reduce,
// send" one with all of them.
//
// Pieces. Every step's slice is cut into the same number K of near-equal pieces, so that transfers
// overlap (a pipeline). Piece k of step s is performed at time k * stride + s.level; a rank
// performs its pieces strictly in the order of (time, k, position in `steps`). A piece without
// elements is left out, by sender and receiver, but of a step that is performed `always` (so that a
// difference of what they expect shows); tokens are in schedules of one piece only. Messages
// between two ranks are a FIFO, so a schedule keeps: a message sent at level l is received at level
// l + 1, and those of one level in the order in which they are sent. Then the order of sends on
// each channel is the order of receives, for every K. schedule/simulate.h checks it.
//
// Room. Messages sent at one time are received at the next. So ranks never wait for each other in a
// circle when each has room for all the messages that it sends at two neighbouring times: that is
// `in_flight`, of the busiest rank. A larger stride keeps fewer pieces under way: a ring of 8 with
// stride 1 would need room for 28 messages; with stride 7 it needs 4.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/types.h"

namespace trainyard::comm {

// kInput is only read. kOutput may be the same memory as kInput (in place): a schedule must be
// right for both. kScratch belongs to the operation and has `Schedule::scratch` elements.
enum class Region : std::uint8_t { kInput, kOutput, kScratch };

struct Slice {  // in elements
  Region region = Region::kInput;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;

  bool operator==(const Slice&) const = default;
};

struct Step {
  // Operands: the next message of each of these ranks (ascending), and `own`, are combined in
  // ascending order of ranks, so that every rank that combines the same operands gets the same
  // bits. Two operands or more need a reduction; one is only copied.
  std::vector<std::int32_t> from = {};
  std::optional<Slice> own = {};
  // Operands read in the kInput, and the result written to the kOutput, of these ranks, both at the
  // offset of `remote` (whose region says nothing): only in a schedule with `windows`. The ranks
  // meet before it, so that all windows are known and ready, and its tokens are the meeting after.
  std::vector<std::int32_t> read = {};
  std::vector<std::int32_t> write = {};
  std::optional<Slice> remote = {};

  std::optional<Slice> store = {};    // where the result is kept, if it is
  std::vector<std::int32_t> to = {};  // who gets it as a message
  std::uint64_t length = 0;           // of every slice and message of this step
  std::int32_t level = 0;             // pipeline position, see above
  bool token = false;                 // empty messages that only say "I am here"
  bool finish = false;                // the result is final: kAverage divides here
  bool always = false;                // also a piece without elements is a message

  bool operator==(const Step&) const = default;
};

// Some schedules for small buffers cannot be cut.
inline constexpr std::uint64_t kUncutElements = 4096;

struct Schedule {
  std::string algorithm = {};  // "ring", "direct", ...: for traces, tables and people
  std::vector<Step> steps = {};
  std::uint64_t scratch = 0;  // elements of kScratch
  // The longest slice of any rank: all ranks cut into equally many pieces. 0: K is 1, always; then
  // messages are of at most kUncutElements.
  std::uint64_t longest = 0;
  std::int32_t stride = 1;      // times between the pieces of a step, see above
  std::uint64_t in_flight = 0;  // messages of a rank that need room at once, see above
  bool windows = false;         // needs all ranks' buffers in memory that all of them map

  bool operator==(const Schedule&) const = default;
};

// Where piece k of `pieces` of a slice lies: [length * k / pieces, length * (k + 1) / pieces).
Slice piece_of(const Slice& slice, std::uint64_t k, std::uint64_t pieces);

// The part of `count` elements that belongs to `index` of `parts`: the first count % parts are one
// element longer.
Slice part_of(Region region, std::uint64_t count, std::uint64_t parts, std::uint64_t index);

// One line a step: "L1 ring: out[0:512) = in[0:512) + message of 3 -> 1".
std::string to_string(const Schedule& schedule);

}  // namespace trainyard::comm
