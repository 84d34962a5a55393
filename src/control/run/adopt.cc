// SPDX-License-Identifier: Apache-2.0
// What a restarted server does first: it takes up each unfinished job where its stored stage says
// it stood. Stages are stored before they are acted on, so a crash in between is found here: a call
// that may or may not have been made is made again (they are idempotent). A gang whose start is in
// doubt is given back and prepared anew under the next epoch; of one that ran before, those that do
// not run are started with new tokens.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/log.h"
#include "control/run/clock_jump.h"
#include "control/run/reconciler.h"

namespace trainyard::control {
namespace {

bool is_alive(const std::vector<RunningInstance>& running, const Job& job,
              const InstanceFacts& wanted) {
  return std::any_of(running.begin(), running.end(), [&](const RunningInstance& instance) {
    return instance.alive && instance.id == gang_of(job) && instance.host == wanted.host &&
           instance.epoch == wanted.incarnation;
  });
}

}  // namespace

Result<void> Reconciler::adopt() {
  YARD_TRY(std::vector<Job> jobs, around_.database.read(unfinished_jobs));
  const auto running = around_.outside.engine.list();
  if (!running) {
    // Then silence will tell who is gone.
    log_error(fmt::format("listing running instances: {}", running.error().message));
  }
  for (Job& job : jobs) {
    YARD_TRY(adopt_job(std::move(job), running ? &*running : nullptr));
  }
  if (running) {
    release_orphans(*running);
  }
  reconcile();
  if (const std::string problem = store_problem(); !problem.empty()) {
    return Error{.code = Code::kUnavailable,
                 .message = "what was taken up could not be stored: " + problem};
  }
  return around_.identity.revoke_all_but([this](const std::string& name, int epoch) {
    const Active* active = find(name);
    return active != nullptr && active->job.epoch == epoch;
  });
}

Result<void> Reconciler::adopt_job(Job job, const std::vector<RunningInstance>* running) {
  const std::string name = job.name;
  YARD_TRY(const std::vector<InstanceRow> rows, around_.database.read([&](Connection& connection) {
    return instances_of(connection, name, job.epoch);
  }));
  const Now at = now();
  Active& active = jobs_[name] = Active{.job = std::move(job)};
  for (const InstanceRow& row : rows) {
    active.facts.instances.push_back(row.facts);
    active.commands[row.key.host] = row.commands;
    active.acknowledged[row.key.host] = row.acknowledged;
    active.token_hashes[row.key.host] = row.token_hash;
  }
  if (const Duration jump = jump_since_stored(active.job, at.wall); jump.count() != 0) {
    follow(jump, active.job, active.facts);
    dirty_.insert(name);
  }
  forget_the_future(at.wall, active.facts);
  // Instances may be slow to find the server again: each has kFirstReport from here.
  active.facts.launched = at;
  if (has_instances(active.job.stage)) {
    open_sessions(active.job, rows);
  }
  resume(active, running);
  touched_.insert(name);
  return {};
}

// As if it were decided and stored just now.
void Reconciler::add_effect(const Job& job, Action action) {
  effects_.push_back({.job = job.name, .action = std::move(action)});
}

void Reconciler::resume(Active& active, const std::vector<RunningInstance>* running) {
  Job& job = active.job;
  for (InstanceFacts& instance : active.facts.instances) {
    instance.supervisor_ended = running != nullptr && !is_alive(*running, job, instance);
  }
  switch (job.stage) {
    case Stage::kChecking:
      job.stage = Stage::kNew;
      return;
    case Stage::kPreparing:
    case Stage::kLaunching:
    case Stage::kRelaunching:
      resume_start(active, running);
      return;
    case Stage::kMerging:
      add_effect(job, MergeArtifacts{});
      return;
    case Stage::kRegrouping:
    case Stage::kReleasing:
      add_effect(job, ReleaseGang{});
      return;
    default:
      return;
  }
}

// Once the engine has started all of them, the call has been made. When the engine does not say
// what runs, silence will tell who is missing of a gang that ran before.
void Reconciler::resume_start(Active& active, const std::vector<RunningInstance>* running) {
  Job& job = active.job;
  StartGang missing;
  for (const InstanceFacts& instance : active.facts.instances) {
    const bool was_asked =
        std::find(job.to_start.begin(), job.to_start.end(), instance.host) != job.to_start.end();
    if (instance.supervisor_ended && was_asked) {
      missing.hosts.push_back(instance.host);
    }
  }
  const bool is_relaunch = job.stage == Stage::kRelaunching;
  const bool is_known = running != nullptr && !active.facts.instances.empty();
  if (missing.hosts.empty() && (is_known || is_relaunch)) {
    active.facts.call = Result<void>();
    return;
  }
  log_warning(fmt::format("attempt {} of job {} was interrupted while it started: starting again",
                          job.epoch, job.name));
  const Action action = is_relaunch ? Action(missing) : Action(ReleaseGang{});
  if (!is_relaunch) {
    apply(Enter{.stage = Stage::kRegrouping}, now(), job, active.facts);
  }
  apply(action, now(), job, active.facts);
  collect(active, action);
  dirty_.insert(job.name);
}

void Reconciler::release_orphans(const std::vector<RunningInstance>& running) {
  std::set<GangId> orphans;
  for (const RunningInstance& instance : running) {
    const Active* active = find(instance.id.job);
    const bool is_ours = active != nullptr && gang_of(active->job) == instance.id &&
                         holds_capacity(active->job.stage);
    if (!is_ours) {
      orphans.insert(instance.id);
    }
  }
  for (const GangId& id : orphans) {
    log_warning(
        fmt::format("gang {} of job {} runs but belongs to no job: ending it", id.epoch, id.job));
    around_.background([&engine = around_.outside.engine, id] {
      if (auto released = engine.release(id); !released) {
        log_error(fmt::format("releasing gang {} of job {}: {}", id.epoch, id.job,
                              released.error().message));
      }
    });
  }
}

// Gangs whose release has failed, too: nobody else ends them before the next start of a server.
void Reconciler::seek_orphans() {
  constexpr auto kEvery = std::chrono::minutes(1);
  const SteadyTime at = now().steady;
  if (at < orphans_sought_ + kEvery) {
    return;
  }
  orphans_sought_ = at;
  if (const auto running = around_.outside.engine.list()) {
    release_orphans(*running);
  }
}

}  // namespace trainyard::control
