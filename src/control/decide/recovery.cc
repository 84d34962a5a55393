// SPDX-License-Identifier: Apache-2.0
// A platform fault and what follows. The healthy instances keep their place and their tokens: the
// user's programs on them end, the epoch moves, the lost ones are started anew, and the job goes
// through Starting again. A gang that never started, or that the engine does not know any more, is
// given back whole and waits for its turn.
#include <algorithm>

#include <fmt/format.h>

#include "base/encoding.h"
#include "control/decide/steps.h"
#include "control/job/job_state.h"

namespace trainyard::control {
namespace {

using wire::Command;

int attempts_made(const Job& job) {
  return std::max(1, static_cast<int>(job.attempts.size()));
}

bool may_repair(const Job& job) {
  return attempts_made(job) < max_attempts(job);
}

// What is repaired, and when it goes on. `made`: attempts that are over or given up.
std::string repair_message(const Job& job, std::string_view cause, int made, Duration pause) {
  std::string text =
      fmt::format("Repairing: {}; attempt {} of {} follows", cause, made + 1, max_attempts(job));
  return pause.count() == 0 ? text : fmt::format("{} in {} s", text, pause.count() / 1000);
}

// Back to Starting, unless it is there.
Action show_repair(const Situation& in, const AbandonAttempt& abandon) {
  const Job& job = in.job;
  const int made = attempts_made(job) - (abandon.joins ? 1 : 0);
  std::string message = repair_message(job, full_cause(abandon.cause, abandon.also_lost), made,
                                       repair_pause(job.repairs));
  if (job.secondary == Secondary::kStarting) {
    return SetMessage{std::move(message)};
  }
  return SetStatus{Secondary::kStarting, std::move(message)};
}

bool may_start(const Situation& in) {
  return in.now.wall >= in.job.start_after.value_or(in.now.wall);
}

const InstanceFacts* find_instance(const Facts& facts, const std::string& host) {
  const auto found =
      std::find_if(facts.instances.begin(), facts.instances.end(),
                   [&](const InstanceFacts& instance) { return instance.host == host; });
  return found == facts.instances.end() ? nullptr : &*found;
}

// Lost, or about to leave because somebody has stopped its supervisor.
bool is_leaving(const Situation& in, const InstanceFacts& instance) {
  return is_lost(instance, in.facts, in.now) || (instance.exit && instance.exit->is_leaving);
}

// Whether the attempt that follows `before` is still that of the same event: it has not trained
// yet, or the event may not be over.
bool is_same_event(const Job& job, const Attempt& before, const Fault& fault) {
  const bool has_trained =
      job.secondary != Secondary::kStarting && job.secondary != Secondary::kDownloading;
  const WallTime ended = before.counts_as_ended.value_or(before.end.value_or(fault.began));
  return !job.attempts.back().end && (!has_trained || fault.began < ended + kOneEvent);
}

// One event (a machine's power, a lack of memory) may take several instances, one after another. An
// instance that had outlived the attempt before, and is lost before the new one trains or soon
// after the first, belongs to what ended that one. Each can do so once: its replacement is newer.
// What failed on others since is its victim.
bool joins_repair(const Situation& in, const Fault& fault) {
  const Attempt* before = last_ended_attempt(in.job);
  const InstanceFacts* lost = find_instance(in.facts, fault.host);
  if (before == nullptr || !is_same_event(in.job, *before, fault) || lost == nullptr ||
      !is_leaving(in, *lost)) {
    return false;
  }
  const auto& instances = in.facts.instances;
  return std::all_of(instances.begin(), instances.end(), [&](const InstanceFacts& instance) {
    const auto own = fault_of(instance, in.facts, /*asked=*/true, in.now);
    const bool is_victim = own && !own->is_platform && own->began >= fault.began;
    return !own || is_victim || (is_leaving(in, instance) && instance.incarnation <= before->epoch);
  });
}

// Hosts that are lost now, after those in `known`, without `first`.
std::vector<std::string> lost_beside(const Situation& in, const std::string& first,
                                     std::vector<std::string> known) {
  for (const InstanceFacts& instance : in.facts.instances) {
    if (instance.host != first && !is_named(known, instance.host) &&
        is_lost(instance, in.facts, in.now)) {
      known.push_back(instance.host);
    }
  }
  return known;
}

AbandonAttempt abandon_for(const Situation& in, const Fault& fault) {
  if (const Attempt* before = last_ended_attempt(in.job); before && joins_repair(in, fault)) {
    return {.cause = before->cause,
            .host = before->host,
            .also_lost = lost_beside(in, before->host, before->also_lost),
            .to_replace = lost_beside(in, fault.host, {fault.host}),
            .joins = true};
  }
  const InstanceFacts* instance = find_instance(in.facts, fault.host);
  const bool is_loss = instance != nullptr && is_lost(*instance, in.facts, in.now);
  return {.cause = std::string(cause_of(fault)),
          .host = fault.host,
          .also_lost = is_loss ? lost_beside(in, fault.host, {}) : std::vector<std::string>(),
          .to_replace = lost_beside(in, fault.host, {fault.host})};
}

// Once nobody is waited for: all who were lost are known.
Actions show_all_lost(const Situation& in) {
  const Attempt* ended = last_ended_attempt(in.job);
  if (ended == nullptr || in.job.secondary != Secondary::kStarting) {
    return {};
  }
  AlsoLost lost{lost_beside(in, ended->host, ended->also_lost)};
  const int made = attempts_made(in.job) - (in.job.attempts.back().end ? 0 : 1);
  Actions actions{
      SetMessage{repair_message(in.job, full_cause(ended->cause, lost.hosts), made, Duration())}};
  if (lost.hosts != ended->also_lost) {
    actions.emplace_back(std::move(lost));
  }
  return actions;
}

// Not worth keeping: gone, unable to end its program, or broken in itself.
bool needs_replacement(const Situation& in, const InstanceFacts& instance) {
  if (is_gone(in, instance) || !has_ended(in, instance)) {
    return true;
  }
  const auto fault = fault_of(instance, in.facts, /*asked=*/true, in.now);
  return fault && fault->is_platform;
}

// A gang that this server cannot make as it was asked for (kInvalidArgument: of isolated instances
// without root), or may not make: another attempt would end the same way. Later on these codes are
// what a system call has answered.
bool is_refused(const Situation& in, const Error& error) {
  return in.job.stage == Stage::kPreparing &&
         (error.code == Code::kInvalidArgument || error.code == Code::kDenied);
}

// The home was restored from a backup, which holds no gangs, or the gang's record is lost.
bool is_gang_unknown(const Situation& in, const Error& error) {
  return in.job.stage == Stage::kRelaunching && error.code == Code::kNotFound &&
         error.subject == kGangSubject;
}

std::string launch_reason(const Situation& in, const Error& error) {
  const bool is_clients = is_refused(in, error) && error.code == Code::kInvalidArgument;
  return is_clients ? reason_of(error) : launch_reason_of(error);
}

}  // namespace

bool may_recover(const Situation& in, const Fault& fault) {
  return fault.is_platform && (may_repair(in.job) || joins_repair(in, fault));
}

Actions begin_recovery(const Situation& in, const Fault& fault) {
  // From kEnding: they have been told already, and the time runs.
  const bool told = in.job.stage == Stage::kEnding;
  const WallTime until = in.now.wall + kAbortBound;
  AbandonAttempt abandon = abandon_for(in, fault);
  Actions actions{show_repair(in, abandon), std::move(abandon),
                  Enter{.stage = Stage::kRecovering,
                        .until = told ? in.job.stage_until.value_or(until) : until}};
  return told ? actions : std::move(actions) + send_to_running(in, Command::Kind::kAbort);
}

std::string final_reason(const Situation& in, const Fault& fault) {
  if (!fault.is_platform) {
    return fault.reason;
  }
  const std::string made =
      fmt::format("; attempt {} of {}", attempts_made(in.job), max_attempts(in.job));
  const std::string reason = full_cause(fault.reason, lost_together(fault, in.facts, in.now));
  return fmt::format("{}{}", utf8_prefix(reason, kMaxReason - made.size()), made);
}

Actions while_recovering(const Situation& in) {
  const WallTime until = in.job.stage_until.value_or(in.now.wall);
  if (const auto stop = stop_reason(in)) {
    return show_stop(in, *stop) + Actions{Enter{.stage = Stage::kEnding, .until = until}};
  }
  if (!may_go_on(in, until) || !may_start(in)) {
    return {};
  }
  StartGang start;
  for (const InstanceFacts& instance : in.facts.instances) {
    if (needs_replacement(in, instance)) {
      start.hosts.push_back(instance.host);
    }
  }
  return show_all_lost(in) +
         Actions{NextEpoch{}, Enter{.stage = Stage::kRelaunching}, std::move(start)};
}

Actions after_launch_error(const Situation& in, const Error& error) {
  if (in.job.outcome) {  // stopped meanwhile
    return release();
  }
  if (is_gang_unknown(in, error)) {  // the same attempt goes on with a gang of its own
    return {Enter{.stage = Stage::kRegrouping}, ReleaseGang{}};
  }
  const bool replaces = in.job.stage == Stage::kRelaunching && !in.job.to_start.empty();
  const std::string host = replaces ? in.job.to_start.front() : std::string();
  const Fault fault{
      .at = in.now.wall,
      .reason = launch_reason(in, replaces ? error.in("replacing " + host) : error),
      .host = host,
      // What a replacement lacks may be back soon: the others wait for it.
      .is_platform = (replaces || error.code != Code::kExhausted) && !is_refused(in, error),
      .began = in.now.wall};
  if (!may_recover(in, fault)) {
    return Actions{failed(fault.at, final_reason(in, fault))} + release();
  }
  if (replaces) {
    return begin_recovery(in, fault);
  }
  const AbandonAttempt abandon{.cause = std::string(cause_of(fault))};
  return {show_repair(in, abandon), abandon, Enter{.stage = Stage::kRegrouping}, ReleaseGang{}};
}

Actions while_regrouping(const Situation& in) {
  if (in.facts.call && in.job.outcome) {  // stopped while its gang was being started
    return release();
  }
  if (!in.facts.call || (!may_start(in) && !stop_reason(in))) {
    return {};
  }
  return {NextEpoch{}, Enter{.stage = Stage::kWaiting}};
}

}  // namespace trainyard::control
