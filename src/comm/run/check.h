// SPDX-License-Identifier: Apache-2.0
// Whether an Operation makes sense on its own, before anything is sent: sizes are whole elements
// and fit each other, the reduction exists for the dtype, the root is a rank, buffers do not
// overlap by accident. Pure; what ranks must agree on comes out as the Signature, which the
// executor compares with theirs.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "comm/communicator.h"
#include "comm/schedule/algorithms.h"
#include "comm/types.h"

namespace trainyard::comm {

struct Checked {
  Request request;
  Signature signature;
  std::uint64_t bytes = 0;  // of the whole operation: request.count elements
  // Only the agreement on it is performed here: it ends with end_elsewhere() (communicator.h).
  bool is_elsewhere = false;
};

// For rank `rank` of `size`. Fills a missing `input` (in place) of all-reduce and broadcast from
// `output`. kInvalidArgument says which field is wrong, what it is, and what it should be.
Result<Checked> check(Operation& operation, std::int32_t rank, std::int32_t size);

}  // namespace trainyard::comm
