// SPDX-License-Identifier: Apache-2.0
// What the steps of decide() share: the situation that they look at, and the actions that several
// of them choose. For the files of this folder only; decide.h is the face.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "control/decide/decide.h"
#include "control/decide/failure.h"

namespace trainyard::control {

using Actions = std::vector<Action>;

struct Situation {
  const Job& job;
  const Facts& facts;
  const CapacityView& capacity;
  const Limits& limits;
  const Now& now;
};

Actions operator+(Actions first, Actions second);

Conclude failed(WallTime at, std::string reason);
Conclude stopped(const Situation& in, Secondary how = Secondary::kStopped);
// Known from kEnding on. A database that lost it must not keep the job from ending.
Outcome outcome_of(const Job& job);

bool is_named(const std::vector<std::string>& hosts, const std::string& host);
// Nothing is to be expected of it any more: it has left, is lost, or is to be replaced.
bool is_gone(const Situation& in, const InstanceFacts& instance);
// Nothing of the user's runs there any more, or nothing can be known of it.
bool has_ended(const Situation& in, const InstanceFacts& instance);
// Nobody is to be waited for any more: all have ended, or `until` is over for those that have not.
// One that flushes its checkpoints keeps its own time: it gives up when nothing moves for a minute,
// and what it has not sent by then is lost.
bool may_go_on(const Situation& in, WallTime until);
// To everyone who still runs something.
Actions send_to_running(const Situation& in, wire::Command::Kind kind);
Actions begin_ending(const Situation& in, std::chrono::milliseconds bound,
                     wire::Command::Kind kind);
Actions release();

// Why the job has to stop now: the user's wish, or a limit of its request.
struct Stop {
  Secondary status = Secondary::kStopped;
  std::string message;
  std::string limit = {};  // what is exceeded, where the status does not say it
};
std::optional<Stop> stop_reason(const Situation& in);
// Shows that the job stops, and how it will end.
Actions show_stop(const Situation& in, const Stop& stop);

// --- recovery.cc: what a platform fault leads to ---

bool may_recover(const Situation& in, const Fault& fault);
Actions begin_recovery(const Situation& in, const Fault& fault);
// The FailureReason when no attempt follows.
std::string final_reason(const Situation& in, const Fault& fault);
Actions while_recovering(const Situation& in);
// The engine could not start what was asked for.
Actions after_launch_error(const Situation& in, const Error& error);
Actions while_regrouping(const Situation& in);

}  // namespace trainyard::control
