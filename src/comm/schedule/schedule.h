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
// overlap (a pipeline). Piece k of step s is performed at time k + s.level; a rank performs its
// pieces strictly in the order of (k + level, k, position in `steps`). Messages between two ranks
// are a FIFO, so a schedule must keep: a message sent at level l is received at level l + 1. Then
// the order of sends on each channel is the order of receives, for every K. schedule/simulate.h
// checks it.
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
  std::vector<std::int32_t> from;
  std::optional<Slice> own;
  // Operands read, and the result written, directly in the memory of these ranks, at `remote`: only
  // in a schedule with `windows`, between the meetings that its tokens are.
  std::vector<std::int32_t> read;
  std::vector<std::int32_t> write;
  std::optional<Slice> remote;

  std::optional<Slice> store;    // where the result is kept, if it is
  std::vector<std::int32_t> to;  // who gets it as a message
  std::uint64_t length = 0;      // of every slice and message of this step
  std::int32_t level = 0;        // pipeline position, see above
  bool token = false;            // empty messages that only say "I am here"; once, not per piece
  bool finish = false;           // the result is final: kAverage divides here

  bool operator==(const Step&) const = default;
};

struct Schedule {
  std::string algorithm;  // "ring", "direct", ...: for traces, tables and people
  std::vector<Step> steps;
  std::uint64_t scratch = 0;  // elements of kScratch
  std::uint64_t longest =
      0;                 // the longest slice of any rank: all ranks cut into equally many pieces
  bool windows = false;  // needs all ranks' buffers in memory that all of them map

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
