// SPDX-License-Identifier: Apache-2.0
// The texts of the errors that end a communicator while an operation runs: who, in what, and what
// the others do. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "comm/transport/transport.h"

namespace trainyard::comm {

// Where an error was seen: in an operation of one rank.
struct Scene {
  std::string_view communicator;
  std::int32_t rank = 0;
  Label label;
};

// kConflict: the message of `peer` has another label, or the same and `got` bytes where `wanted`
// were expected.
Error disagreement(const Scene& scene, std::int32_t peer, const Label& theirs, std::size_t got,
                   std::size_t wanted);

struct SilentRank {
  std::int32_t rank = 0;
  std::optional<std::uint64_t> last_issued;  // as far as is known
};

struct Overdue {
  std::chrono::milliseconds timeout;
  std::size_t bytes = 0;   // of the larger buffer
  std::int32_t peer = -1;  // that is waited for, or -1
  std::vector<std::int32_t> heard = {};
  std::vector<SilentRank> silent = {};
};

// kDeadline.
Error overdue(const Scene& scene, const Overdue& what);

// kUnavailable: the memory of `peer` could not be read, for this reason.
Error out_of_reach(const Scene& scene, std::int32_t peer, const Error& why);

}  // namespace trainyard::comm
