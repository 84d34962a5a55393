// SPDX-License-Identifier: Apache-2.0
// Which algorithm an operation uses: a table of rules, first match wins. Rank 0's table is given to
// all ranks of a communicator, so that all choose alike. There is a default one; a sweep at start
// measures a better one (measured()), and it can be kept as text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "comm/schedule/algorithms.h"

namespace trainyard::comm {

struct Choice {
  Algorithm algorithm = Algorithm::kDirect;
  std::uint64_t piece_bytes = std::uint64_t{128} << 10;  // a piece of a slice is not longer

  bool operator==(const Choice&) const = default;
};

// An operation in a place: the kind, and classes of world and size, each with an upper bound.
struct Rule {
  static constexpr std::int32_t kAnyRanks = std::numeric_limits<std::int32_t>::max();
  static constexpr std::uint64_t kAnyBytes = std::numeric_limits<std::uint64_t>::max();

  OpKind kind = OpKind::kAllReduce;
  bool windows = false;             // only where all buffers are in memory that all map
  std::int32_t hosts = kAnyRanks;   // up to so many hosts,
  std::int32_t local = kAnyRanks;   // so many ranks on the fullest of them,
  std::uint64_t bytes = kAnyBytes;  // and so many bytes, counted as Signature::count is
  Choice choice = {};

  bool operator==(const Rule&) const = default;
};

// What bounds Algorithm::kMesh, by the names, defaults and meanings that SageMaker's data parallel
// library gives its buffers; SMDDP_AG_SCRATCH_BUFFER_SIZE_BYTES and
// SMDDP_AG_SORT_BUFFER_SIZE_BYTES of rank 0. Results land in the order of ranks here, so `sort` is
// no memory: it only says what is too large, as there.
struct MeshBuffers {
  static constexpr std::uint64_t kUnit = 8192;    // both are multiples of it
  static constexpr std::uint64_t kSortShare = 8;  // `sort` holds this part of the result, at least

  std::uint64_t scratch = std::uint64_t{16} << 20;  // under way from a rank to others at once
  std::uint64_t sort = std::uint64_t{128} << 20;    // else the table's next rule holds

  bool operator==(const MeshBuffers&) const = default;
};

// In the order of kind; windows first; hosts, local and bytes ascending: the tightest class that
// holds an operation is found first.
struct Choices {
  std::vector<Rule> rules = {};
  MeshBuffers mesh = {};

  bool operator==(const Choices&) const = default;
};
void sort_rules(Choices& choices);

// For shared memory within hosts and TCP between them.
Choices default_choices();

// The rules that matter in one world, so that a choice costs a few comparisons.
class Chooser {
 public:
  Chooser(const Choices& choices, const World& world);

  // The first rule that holds and whose algorithm is there in this world, or else kDirect. The same
  // on all ranks, if they agree on `reach`. An uneven all-to-all, whose size no rank knows, is
  // kDirect.
  Choice choose(const Request& request, std::size_t dtype_bytes, Reach reach) const;

 private:
  struct Bound {
    std::uint64_t bytes = 0;
    Choice choice;
  };
  static constexpr std::size_t kKinds = static_cast<std::size_t>(OpKind::kReceive) + 1;
  static constexpr std::size_t kReaches = static_cast<std::size_t>(Reach::kMapped) + 1;
  std::array<std::array<std::vector<Bound>, kReaches>, kKinds> bounds_;
};

// Chooser for one question.
Choice choose(const Choices& choices, const Request& request, std::size_t dtype_bytes,
              const World& world, Reach reach);
// What an algorithm needs at least.
Reach needed_by(const Rule& rule);

// One line per rule under a line with the version, and one for the mesh's buffers where they are
// not the default; "#" begins a comment.
std::string to_string(const Choices& choices);
// kInvalidArgument with the line's number; kUnimplemented: another version. Sorts the rules.
Result<Choices> parse_choices(std::string_view text);

// One timed run, or the mean of some.
struct Measurement {
  OpKind kind = OpKind::kAllReduce;
  bool windows = false;
  std::int32_t hosts = 1;
  std::int32_t local = 1;
  std::uint64_t bytes = 0;
  Choice choice = {};
  double seconds = 0;
};

// `before` with the rules of each measured (kind, windows, hosts, local) replaced: at each measured
// size the choice with the best median, but that of the next smaller size while it is at most 5 %
// slower, so that noise makes no rules. It changes half-way between sizes (geometric mean). What
// was measured to less than `enough` bytes says nothing about more: its last rule ends at twice the
// largest size.
Choices measured(std::span<const Measurement> measurements, const Choices& before,
                 std::uint64_t enough = 0);

}  // namespace trainyard::comm
