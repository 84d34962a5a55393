// SPDX-License-Identifier: Apache-2.0
// The leader's side of its conversation with one rank (rank.h), on a thread of that rank's own.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "instance/mpi/verdict.h"
#include "instance/remote_shell/connection.h"

namespace trainyard::instance {

struct RankSinks {
  // The payload of kStart, the program; nothing once the job is to stop: a rank that comes later
  // would never hear of it.
  std::function<std::optional<std::string>()> start;
  std::function<void()> joined;
  std::function<void(int rank, std::string bytes)> heard;
  std::function<void(RankEnd)> ended;  // once for each that has joined; without time and lines
};

// Returns when the rank has ended.
void talk_to_rank(Connection rank, const RankSinks& sinks, const std::stop_token& stop);

}  // namespace trainyard::instance
