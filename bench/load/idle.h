// SPDX-License-Identifier: Apache-2.0
// Connections that have asked once and are then kept open without a word, as SDKs keep theirs.
#pragma once

#include <cstdint>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "bench/load/plan.h"
#include "bench/load/work.h"

namespace trainyard::load {

class IdleConnections {
 public:
  // plan.idle of them, each after one good answer.
  static Result<IdleConnections> open(const Plan& plan, Work& work);
  // How many answer another request on the same connection.
  std::uint64_t count_answering(Work& work) const;

 private:
  std::vector<Fd> fds_;
};

}  // namespace trainyard::load
