// SPDX-License-Identifier: Apache-2.0
// The algorithms: pure functions from what is asked to the steps of one rank. Any world from 1, any
// count from 0. choose.h says which one is used when. Costs and names follow the collectives
// literature (Thakur, Rabenseifner, Gropp 2005 for ring, halving-doubling and trees; Sanders,
// Speck, Träff 2009 for the double binary tree).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "comm/schedule/schedule.h"

namespace trainyard::comm {

// The ranks of a communicator and the hosts they are on: host[r] is a small number; ranks with
// equal numbers share memory.
struct World {
  std::int32_t rank = 0;
  std::int32_t size = 1;
  std::vector<std::int32_t> host = {};  // `size` of them
};

// What is asked, in elements. `count` as in Signature. `counts` only for uneven operations:
// all-gather and reduce-scatter: of each rank; all-to-all: what this rank sends to each (`counts`)
// and gets from each (`receive_counts`).
struct Request {
  OpKind kind = OpKind::kBarrier;
  std::uint64_t count = 0;
  std::int32_t root = -1;
  std::vector<std::uint64_t> counts = {};
  std::vector<std::uint64_t> receive_counts = {};
};

// Layouts of buffers. all-reduce, broadcast, reduce: `count` elements in and out (reduce: out at
// the root only; broadcast: in at the root only, whose out is not written). reduce-scatter: in
// `count`, out part_of(count, size, rank) or counts[rank]. all-gather: the reverse. gather,
// scatter: as these, whole buffer at the root only, `count` divisible by size. all-to-all: in and
// out in rank order, `count` = elements that one rank sends, divisible by size unless uneven.
//
// In place means: all-reduce and reduce: out is in; reduce-scatter and scatter: out is this rank's
// part of in; all-gather and gather: in is this rank's part of out. All-to-all has no such form.

enum class Algorithm : std::uint8_t {
  // A ring that crosses each host boundary once; broadcast, reduce: a chain from or to the root.
  kRing,
  // Recursive; worlds that are no power of two fold the rest in. Rooted: a binomial tree. Barrier:
  // dissemination (Hensgen, Finkel, Manber 1988).
  kHalvingDoubling,
  kDoubleTree,  // two complementary binary trees, half of the data each
  // Every rank speaks with every other: parts to their owners, which combine, then to all.
  kDirect,
  // One hop: everyone gets everything and reduces for itself; broadcast, reduce: without parts.
  kDirectSmall,
  kWindow,  // one hop through memory that all ranks map; needs buffers registered, one host
  // Every rank copies what it needs out of the memory of others; no reduction, one host.
  kSingleCopy,
  kTwoLevel,  // inside hosts, then across on parallel rails, then inside
  kBalanced,  // all-reduce: the same, with equal shares of hosts that have unequal ranks
  kMesh       // all-gather: one hop to each other host, handed on inside at the same time
};

std::string_view name_of(Algorithm algorithm);
// "two_level" -> kTwoLevel; kInvalidArgument lists the names.
Result<Algorithm> parse_algorithm(std::string_view name);

// Whether `make_schedule` has this algorithm for this kind of operation. kDirect is there for all
// kinds and worlds; an uneven all-to-all is kDirect whatever is asked.
bool is_available(Algorithm algorithm, OpKind kind, const World& world);
// Check first with is_available; the request has passed run/check.h.
Schedule make_schedule(Algorithm algorithm, const Request& request, const World& world);

}  // namespace trainyard::comm
