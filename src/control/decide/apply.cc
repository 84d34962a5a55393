// SPDX-License-Identifier: Apache-2.0
// What decide()'s actions mean for the job's own value, and how they read.
#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "control/decide/decide.h"
#include "control/decide/overloaded.h"
#include "control/job/job_state.h"

namespace trainyard::control {
namespace {

std::string_view name_of(wire::Command::Kind kind) {
  switch (kind) {
    case wire::Command::Kind::kGo:
      return "go";
    case wire::Command::Kind::kStop:
      return "stop";
    case wire::Command::Kind::kAbort:
      return "abort";
    case wire::Command::Kind::kUpload:
      return "upload";
    case wire::Command::Kind::kRelease:
      return "release";
    case wire::Command::Kind::kRestart:
      return "restart";
    case wire::Command::Kind::kSignal:
      return "signal";
  }
  return "unknown";
}

// A failed job's training ended when it failed; any other when its artifacts were stored.
void end_training(Job& job, WallTime now) {
  if (job.training_start && !job.training_end && job.outcome) {
    const bool is_failed = job.outcome->status == Secondary::kFailed;
    job.training_end = std::max(*job.training_start, is_failed ? job.outcome->at : now);
  }
}

void enter(const Enter& action, const Now& now, Job& job, Facts& facts) {
  job.stage = action.stage;
  job.stage_until = action.until;
  facts.call.reset();
  switch (action.stage) {
    case Stage::kWaiting:
      job.waiting_since = now.wall;
      job.gpus.clear();
      break;
    case Stage::kRegrouping:
      facts.instances.clear();
      break;
    case Stage::kRunning:
      job.to_start.clear();
      break;
    case Stage::kUploading:
      job.merges = action.merges;
      break;
    case Stage::kMerging:
      job.start_after.reset();
      break;
    case Stage::kReleasing:
      end_training(job, now.wall);
      job.has_model = action.has_model;
      job.missing = action.missing;
      break;
    default:
      break;
  }
  if (action.stage == Stage::kReleasing || action.stage == Stage::kDone) {
    const bool is_failed = job.outcome && job.outcome->status == Secondary::kFailed;
    close_attempt(job, is_failed ? job.outcome->reason : std::string(), {}, now.wall);
  }
}

std::vector<std::string> hosts_of(const Facts& facts) {
  std::vector<std::string> hosts;
  hosts.reserve(facts.instances.size());
  for (const InstanceFacts& instance : facts.instances) {
    hosts.push_back(instance.host);
  }
  return hosts;
}

void abandon(const AbandonAttempt& action, const Now& now, Job& job, const Facts& facts) {
  if (!action.joins) {
    close_attempt(job, action.cause, action.host, now.wall);
  }
  set_also_lost(job, action.also_lost);
  const Duration pause = repair_pause(job.repairs);
  job.start_after = pause.count() > 0 ? std::optional(now.wall + pause) : std::nullopt;
  ++job.repairs;
  job.outcome.reset();
  job.merges.clear();
  if (job.stage == Stage::kUploading) {
    job.to_start = hosts_of(facts);  // all were told to leave
  } else if (job.stage != Stage::kRelaunching) {
    job.to_start = action.to_replace;
  }
}

// Of the attempt before only the supervisors are left.
void begin_epoch(Job& job, Facts& facts) {
  ++job.epoch;
  for (InstanceFacts& instance : facts.instances) {
    instance = {.host = instance.host,
                .incarnation = instance.incarnation,
                .heard = instance.heard,
                .supervisor_ended = instance.supervisor_ended};
  }
}

void start_gang(const StartGang& action, const Now& now, Job& job, Facts& facts) {
  open_attempt(job, now.wall);
  job.to_start = action.hosts;
  job.launched = job.launched.value_or(now.wall);
  facts.launched = now;
  for (const std::string& host : action.hosts) {
    const InstanceFacts fresh{.host = host, .incarnation = job.epoch};
    const auto found =
        std::find_if(facts.instances.begin(), facts.instances.end(),
                     [&](const InstanceFacts& instance) { return instance.host == host; });
    if (found == facts.instances.end()) {
      facts.instances.push_back(fresh);
    } else {
      *found = fresh;
    }
  }
}

void merge_later(const MergeLater& action, const Now& now, Job& job) {
  job.start_after = now.wall + action.pause;
  ++job.repairs;
}

void show(const SetStatus& action, const Now& now, Job& job) {
  set_status(job, action.status, action.message, now.wall);
  if (action.status == Secondary::kTraining) {
    job.repairs = 0;
  }
}

void prepare_gang(const PrepareGang& action, const Now& now, Job& job) {
  job.gpus = action.gpus;
  job.gang_epoch = job.epoch;
  open_attempt(job, now.wall);
}

}  // namespace

void apply(const Action& action, const Now& now, Job& job, Facts& facts) {
  const auto nothing_to_remember = [](const auto&) {};
  std::visit(
      Overloaded{[&](const SetStatus& a) { show(a, now, job); },
                 [&](const SetMessage& a) { set_message(job, a.message, now.wall); },
                 [&](const Enter& a) { enter(a, now, job, facts); },
                 [&](const Conclude& a) { conclude(job, a.outcome); },
                 [&](const AbandonAttempt& a) { abandon(a, now, job, facts); },
                 [&](const AlsoLost& a) { set_also_lost(job, a.hosts); },
                 [&](const NextEpoch&) { begin_epoch(job, facts); },
                 [&](const MergeLater& a) { merge_later(a, now, job); },
                 [&](const PrepareGang& a) { prepare_gang(a, now, job); },
                 [&](const StartGang& a) { start_gang(a, now, job, facts); }, nothing_to_remember},
      action);
}

bool is_value(const Action& action) {
  return std::visit(
      Overloaded{[](const SetStatus&) { return true; }, [](const SetMessage&) { return true; },
                 [](const Enter&) { return true; }, [](const Conclude&) { return true; },
                 [](const AbandonAttempt&) { return true; }, [](const AlsoLost&) { return true; },
                 [](const NextEpoch&) { return true; }, [](const MergeLater&) { return true; },
                 [](const auto&) { return false; }},
      action);
}

std::string describe(const Action& action) {
  return std::visit(
      Overloaded{[](const SetStatus& a) {
                   return fmt::format("SetStatus {}: {}", name_of(a.status), a.message);
                 },
                 [](const SetMessage& a) { return fmt::format("SetMessage: {}", a.message); },
                 [](const Enter& a) { return fmt::format("Enter {}", name_of(a.stage)); },
                 [](const Conclude& a) {
                   return fmt::format("Conclude {}: {}", name_of(a.outcome.status),
                                      a.outcome.reason);
                 },
                 [](const AbandonAttempt& a) {
                   return fmt::format("{}: {}", a.joins ? "JoinRepair" : "AbandonAttempt",
                                      full_cause(a.cause, a.also_lost));
                 },
                 [](const AlsoLost& a) { return "AlsoLost " + join(a.hosts, " "); },
                 [](const NextEpoch&) { return std::string("NextEpoch"); },
                 [](const MergeLater& a) {
                   return fmt::format("MergeLater {} s", a.pause.count() / 1000);
                 },
                 [](const CheckSource&) { return std::string("CheckSource"); },
                 [](const PrepareGang&) { return std::string("PrepareGang"); },
                 [](const StartGang& a) { return "StartGang " + join(a.hosts, " "); },
                 [](const MergeArtifacts&) { return std::string("MergeArtifacts"); },
                 [](const ReleaseGang&) { return std::string("ReleaseGang"); },
                 [](const Send& a) { return fmt::format("Send {} {}", a.host, name_of(a.kind)); }},
      action);
}

}  // namespace trainyard::control
