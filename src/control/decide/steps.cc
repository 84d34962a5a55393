// SPDX-License-Identifier: Apache-2.0
#include "control/decide/steps.h"

#include <algorithm>

#include <fmt/format.h>

namespace trainyard::control {

using wire::Command;
using wire::Phase;

Actions operator+(Actions first, Actions second) {
  std::move(second.begin(), second.end(), std::back_inserter(first));
  return first;
}

Conclude failed(WallTime at, std::string reason) {
  return {{.status = Secondary::kFailed, .reason = std::move(reason), .at = at}};
}

Conclude stopped(const Situation& in, Secondary how) {
  return {{.status = how, .at = in.now.wall}};
}

Outcome outcome_of(const Job& job) {
  return job.outcome.value_or(Outcome{.status = Secondary::kFailed,
                                      .reason = "InternalServerError: the outcome was lost",
                                      .at = job.modified});
}

bool is_named(const std::vector<std::string>& hosts, const std::string& host) {
  return std::find(hosts.begin(), hosts.end(), host) != hosts.end();
}

bool is_gone(const Situation& in, const InstanceFacts& instance) {
  return instance.phase == Phase::kFinished || is_named(in.job.to_start, instance.host) ||
         is_lost(instance, in.facts, in.now);
}

bool has_ended(const Situation& in, const InstanceFacts& instance) {
  return instance.phase >= Phase::kEnded || instance.error || is_gone(in, instance);
}

bool may_go_on(const Situation& in, WallTime until) {
  const auto& instances = in.facts.instances;
  return std::all_of(instances.begin(), instances.end(), [&](const InstanceFacts& instance) {
    return has_ended(in, instance) || (in.now.wall >= until && !instance.is_flushing);
  });
}

Actions send_to_running(const Situation& in, Command::Kind kind) {
  Actions actions;
  for (const InstanceFacts& instance : in.facts.instances) {
    if (!has_ended(in, instance)) {
      actions.emplace_back(Send{.host = instance.host, .kind = kind});
    }
  }
  return actions;
}

Actions begin_ending(const Situation& in, std::chrono::milliseconds bound, Command::Kind kind) {
  return Actions{Enter{.stage = Stage::kEnding, .until = in.now.wall + bound}} +
         send_to_running(in, kind);
}

Actions release() {
  return {Enter{.stage = Stage::kReleasing}, ReleaseGang{}};
}

std::optional<Stop> stop_reason(const Situation& in) {
  if (in.job.stop_requested) {
    return Stop{.message = "Stopping the training job"};
  }
  const auto runtime = max_runtime(in.job);
  const auto began =
      in.job.runtime_counts_from ? in.job.runtime_counts_from : in.job.training_start;
  if ((began && in.now.wall >= *began + runtime) || overdue_since(in.facts)) {
    return Stop{
        .status = Secondary::kMaxRuntimeExceeded,
        .message = fmt::format("MaxRuntimeInSeconds ({}) is over: stopping the training job",
                               runtime.count())};
  }
  const auto wait = max_wait(in.job);
  const WallTime created = in.job.wait_counts_from.value_or(in.job.created);
  if (wait && in.now.wall >= created + *wait) {
    return Stop{.status = Secondary::kMaxWaitTimeExceeded,
                .message = fmt::format(
                    "MaxWaitTimeInSeconds ({}) is over: stopping the training job", wait->count())};
  }
  const auto pending = max_pending(in.job);
  if (in.job.stage == Stage::kWaiting && pending &&
      in.now.wall >= in.job.waiting_since.value_or(created) + *pending) {
    return Stop{.message = fmt::format("MaxPendingTimeInSeconds ({}) is over without enough free "
                                       "capacity: stopping the training job",
                                       pending->count()),
                .limit = "MaxPendingTimeInSeconds"};
  }
  return std::nullopt;
}

Actions show_stop(const Situation& in, const Stop& stop) {
  return {stopped(in, stop.status), SetStatus{Secondary::kStopping, stop.message}};
}

}  // namespace trainyard::control
