// SPDX-License-Identifier: Apache-2.0
#include "control/decide/decide.h"

#include <algorithm>

#include <fmt/format.h>

#include "control/decide/source_check.h"
#include "control/decide/steps.h"
#include "control/job/job_state.h"
#include "wire/upload_error.h"

namespace trainyard::control {
namespace {

using wire::Command;
using wire::Phase;

const InstanceFacts* any_with_message(const Facts& facts, Phase phase) {
  const auto found =
      std::find_if(facts.instances.begin(), facts.instances.end(),
                   [&](const InstanceFacts& i) { return i.phase == phase && !i.message.empty(); });
  return found == facts.instances.end() ? nullptr : &*found;
}

bool all_reached(const Facts& facts, Phase phase) {
  return std::all_of(facts.instances.begin(), facts.instances.end(),
                     [&](const InstanceFacts& instance) { return instance.phase >= phase; });
}

// Uploads from those who can, a plain goodbye to the others that still listen. `shown` is the
// StatusMessage, to which a warning may be added.
Actions begin_upload(const Situation& in, Secondary outcome, const std::string& shown) {
  std::vector<const InstanceFacts*> able;
  for (const InstanceFacts& instance : in.facts.instances) {
    if (instance.phase == Phase::kEnded && !instance.error && !is_gone(in, instance)) {
      able.push_back(&instance);
    }
  }
  ArtifactPlan plan = plan_artifacts(in.job, able, outcome);
  Actions actions{Enter{.stage = Stage::kUploading,
                        .until = in.now.wall + in.limits.upload,
                        .merges = std::move(plan.merges)}};
  for (const InstanceFacts& instance : in.facts.instances) {
    if (is_gone(in, instance)) {
      continue;
    }
    const InstanceUpload upload = plan.uploads[instance.host];
    const auto kind =
        upload.model || upload.output ? Command::Kind::kUpload : Command::Kind::kRelease;
    actions.emplace_back(Send{.host = instance.host, .kind = kind, .upload = upload});
  }
  if (!plan.warning.empty()) {
    actions.emplace_back(SetMessage{fmt::format("{}; {}", shown, plan.warning)});
  }
  return actions;
}

std::string final_message(Secondary status) {
  switch (status) {
    case Secondary::kCompleted:
      return "Training job completed";
    case Secondary::kFailed:
      return "Training job failed";
    case Secondary::kMaxRuntimeExceeded:
      return "Training job stopped: MaxRuntimeInSeconds exceeded";
    case Secondary::kMaxWaitTimeExceeded:
      return "Training job stopped: MaxWaitTimeInSeconds exceeded";
    default:
      return "Training job stopped";
  }
}

// The job is to stop and nothing of it runs anywhere.
Actions stop_at_once(const Situation& in, const Stop& stop) {
  const std::string limit = stop.limit.empty() ? "" : ": " + stop.limit + " exceeded";
  return show_stop(in, stop) + Actions{SetStatus{stop.status, final_message(stop.status) + limit +
                                                                  " before its instances started"},
                                       Enter{.stage = Stage::kDone}};
}

Actions begin_job(const Situation& in) {
  if (!source_of(in.job)) {
    return {Enter{.stage = Stage::kWaiting}};
  }
  return {Enter{.stage = Stage::kChecking}, CheckSource{}};
}

Actions while_checking(const Situation& in) {
  if (const auto stop = stop_reason(in)) {
    return stop_at_once(in, *stop);
  }
  if (!in.facts.call) {
    return {};
  }
  if (*in.facts.call) {
    return {Enter{.stage = Stage::kWaiting}};
  }
  return {failed(in.now.wall, reason_of(in.facts.call->error())),
          SetStatus{Secondary::kFailed, "Training job failed before its instances started"},
          Enter{.stage = Stage::kDone}};
}

Actions while_waiting(const Situation& in) {
  if (const auto stop = stop_reason(in)) {
    return stop_at_once(in, *stop);
  }
  if (in.capacity.granted) {
    const std::string shown = "Preparing the instances for training. " + mapping_of(in.job);
    return {SetMessage{with_warning(shown, in.job)}, Enter{.stage = Stage::kPreparing},
            PrepareGang{in.capacity.gpus}};
  }
  return {SetMessage{with_warning(waiting_message(in.job, in.capacity), in.job)}};
}

std::vector<std::string> all_hosts(const Job& job) {
  std::vector<std::string> hosts;
  hosts.reserve(static_cast<std::size_t>(job.instances));
  for (int i = 0; i < job.instances; ++i) {
    hosts.push_back(host_name(i));
  }
  return hosts;
}

// The engine's calls cannot be broken off; what they made is given back when they are done.
Actions while_starting(const Situation& in) {
  if (in.job.stop_requested && !in.job.outcome) {
    return show_stop(in, {.message = "Stopping the training job"});
  }
  if (!in.facts.call) {
    return {};
  }
  if (!*in.facts.call) {
    return after_launch_error(in, in.facts.call->error());
  }
  if (in.job.stage != Stage::kPreparing) {
    return {Enter{.stage = Stage::kRunning}};
  }
  return in.job.outcome ? release()
                        : Actions{Enter{.stage = Stage::kLaunching}, StartGang{all_hosts(in.job)}};
}

std::string training_message(const Job& job) {
  const std::string text = "Training image download completed. Training in progress.";
  return has_gpu_type(job) ? text + " " + mapping_of(job) : text;
}

Actions progress(const Situation& in) {
  const Facts& facts = in.facts;
  const bool downloading =
      std::any_of(facts.instances.begin(), facts.instances.end(),
                  [](const InstanceFacts& i) { return i.phase >= Phase::kDownloading; });
  if (in.job.secondary == Secondary::kStarting && downloading) {
    return {SetStatus{Secondary::kDownloading, "Downloading input data"}};
  }
  if (in.job.secondary == Secondary::kDownloading && all_reached(facts, Phase::kReady)) {
    return Actions{SetStatus{Secondary::kTraining, training_message(in.job)}} +
           send_to_running(in, Command::Kind::kGo);
  }
  if (in.job.secondary == Secondary::kTraining && all_reached(facts, Phase::kEnded)) {
    // What was on its way to S3 meanwhile is not the last word of the training.
    const std::string shown = "Uploading generated training model";
    return Actions{SetMessage{training_message(in.job)}, SetStatus{Secondary::kUploading, shown},
                   Conclude{{.status = Secondary::kCompleted, .at = in.now.wall}}} +
           begin_upload(in, Secondary::kCompleted, shown);
  }
  const Phase talking =
      in.job.secondary == Secondary::kTraining ? Phase::kTraining : Phase::kDownloading;
  if (const InstanceFacts* speaker = any_with_message(facts, talking)) {
    return {SetMessage{speaker->message}};
  }
  return {};
}

Actions while_running(const Situation& in) {
  const auto stop_bound = in.limits.stop_grace + kStopMargin;
  if (in.job.outcome) {  // stopped while the gang was being started
    return begin_ending(in, stop_bound, Command::Kind::kStop);
  }
  const auto fault = first_fault(in.facts, /*asked=*/false, in.now);
  // What fails when the time is over and the peers are gone was stopped like them.
  const auto overdue = overdue_since(in.facts);
  if (fault && !(overdue && *overdue <= fault->began)) {
    if (may_recover(in, *fault)) {
      return begin_recovery(in, *fault);
    }
    return Actions{failed(fault->at, final_reason(in, *fault))} +
           begin_ending(in, kAbortBound, Command::Kind::kAbort);
  }
  if (const auto stop = stop_reason(in)) {
    return show_stop(in, *stop) + begin_ending(in, stop_bound, Command::Kind::kStop);
  }
  return progress(in);
}

// A fault that began before the one that we know of is the real cause; of the same one more may be
// known now (its victims). When it is a lost instance, what failed on the others was its victim,
// and the job is worth another attempt. One that came after a stop is told in the message only.
Actions learn_faults(const Situation& in) {
  const auto fault = first_fault(in.facts, /*asked=*/true, in.now);
  if (!fault) {
    return {};
  }
  const Outcome known = outcome_of(in.job);
  const std::string reason = final_reason(in, *fault);
  const bool is_cause = known.status == Secondary::kFailed && fault->began <= known.at;
  const bool was_well = known.status == Secondary::kCompleted;
  const bool is_victim = is_cause && in.job.stage == Stage::kEnding;
  if ((was_well || is_victim) && may_recover(in, *fault)) {
    return begin_recovery(in, *fault);
  }
  if (was_well || (is_cause && reason != known.reason)) {
    return {failed(was_well ? fault->at : std::min(fault->at, known.at), reason)};
  }
  const bool is_stop = known.status != Secondary::kFailed;
  const std::string told = full_cause(fault->reason, lost_together(*fault, in.facts, in.now));
  if (is_stop && in.job.transitions.back().message != told) {
    return {SetMessage{told}};
  }
  return {};
}

Actions while_ending(const Situation& in) {
  if (Actions learnt = learn_faults(in); !learnt.empty()) {
    return learnt;
  }
  if (!may_go_on(in, in.job.stage_until.value_or(in.now.wall))) {
    return {};
  }
  return begin_upload(in, outcome_of(in.job).status, in.job.transitions.back().message);
}

Actions stop_while_uploading(const Situation& in) {
  if (!in.job.stop_requested || outcome_of(in.job).status != Secondary::kCompleted) {
    return {};
  }
  return {stopped(in), SetStatus{Secondary::kStopping, "Stopping the training job"}};
}

bool has_sent(const Situation& in, const InstanceFacts& instance) {
  return is_gone(in, instance) || instance.phase < Phase::kEnded;  // has nothing to send
}

// An upload that hangs must not hold the machines for ever.
Actions give_up_upload(const Situation& in, const InstanceFacts& instance) {
  const auto limit = std::chrono::duration_cast<std::chrono::seconds>(in.limits.upload);
  std::string text =
      fmt::format("instance {} did not finish its upload within {} s{}{}", instance.host,
                  limit.count(), instance.message.empty() ? "" : ": ", instance.message);
  if (outcome_of(in.job).status == Secondary::kCompleted) {
    return {failed(in.now.wall, "InternalServerError: " + text)};
  }
  return {SetMessage{std::move(text)}};
}

// S3ModelArtifacts names a place whether or not something is there: this is what tells them apart.
// A job may fail for what its upload had to leave out, and have a model all the same.
bool has_model(const Facts& facts, Secondary status) {
  return std::any_of(facts.instances.begin(), facts.instances.end(), [&](const InstanceFacts& i) {
    return i.exit && i.exit->has_model && i.phase == Phase::kFinished &&
           (i.error ? i.error->subject == wire::kModelSent : status != Secondary::kFailed);
  });
}

// One that is ready may have heard that it may go, and what it said of it may be lost.
bool never_ran(const InstanceFacts& instance) {
  return !instance.exit &&
         (instance.phase < Phase::kReady || (instance.phase < Phase::kTraining && instance.error));
}

// It may have written something, and nobody has seen that it arrived.
bool lacks_results(const InstanceFacts& instance) {
  const bool had_none = never_ran(instance) ||
                        (instance.exit && !instance.exit->has_model && !instance.exit->has_output);
  return instance.phase != Phase::kFinished && !had_none;
}

std::string missing_text(const std::vector<std::string>& hosts, bool are_lost,
                         std::string_view lost_while) {
  if (hosts.empty()) {
    return {};
  }
  const std::string names = some_of(hosts);
  const bool is_one = hosts.size() == 1;
  return are_lost ? fmt::format("the results of {} are missing: {} lost{}", names,
                                is_one ? "it was" : "they were", lost_while)
                  : fmt::format("the results of {} are missing: they did not come in time", names);
}

// Whose results the job lacks in the end. That of an instance that is gone nobody can know.
std::string missing_results(const Situation& in) {
  std::vector<std::string> lost;
  std::vector<std::string> late;
  for (const InstanceFacts& instance : in.facts.instances) {
    if (lacks_results(instance)) {
      (is_lost(instance, in.facts, in.now) ? lost : late).push_back(instance.host);
    }
  }
  const bool is_failed = outcome_of(in.job).status == Secondary::kFailed;
  std::string text = missing_text(lost, true, is_failed ? "" : " while the job was stopping");
  const std::string more = missing_text(late, false, "");
  return text.empty() || more.empty() ? text + more : text + "; " + more;
}

// What is known of the instances goes with them.
Actions release_after_upload(const Situation& in) {
  return {Enter{.stage = Stage::kReleasing,
                .has_model = has_model(in.facts, outcome_of(in.job).status),
                .missing = missing_results(in)},
          ReleaseGang{}};
}

// What keeps an upload from its end, in the instance's words. Those of a fault come first.
Actions show_waiting(const Situation& in) {
  const InstanceFacts* speaker = any_with_message(in.facts, Phase::kUploading);
  if (speaker == nullptr || first_fault(in.facts, /*asked=*/true, in.now)) {
    return {};
  }
  return {SetMessage{speaker->message}};
}

Actions while_uploading(const Situation& in) {
  if (Actions stop = stop_while_uploading(in); !stop.empty()) {
    return stop;
  }
  if (Actions learnt = learn_faults(in); !learnt.empty()) {
    return learnt;
  }
  Actions actions;
  const bool was_well = outcome_of(in.job).status == Secondary::kCompleted;
  const auto sends =
      std::find_if(in.facts.instances.begin(), in.facts.instances.end(),
                   [&](const InstanceFacts& instance) { return !has_sent(in, instance); });
  if (sends != in.facts.instances.end()) {
    if (!in.job.stage_until || in.now.wall < *in.job.stage_until) {
      return show_waiting(in);
    }
    actions = give_up_upload(in, *sends);
    if (was_well) {
      return actions;  // what is kept depends on the outcome
    }
  }
  if (in.job.merges.empty()) {
    return std::move(actions) + release_after_upload(in);
  }
  return std::move(actions) +
         Actions{Enter{.stage = Stage::kMerging, .until = in.now.wall + in.limits.upload},
                 MergeArtifacts{}};
}

// The parts are what the job was run for, and joining them again does no harm.
Actions merge_again(const Situation& in, const Error& error) {
  if (!in.job.start_after) {
    const Duration pause = repair_pause(in.job.repairs + 1);
    return {SetMessage{fmt::format("The results of the instances are joined again in {} s: {}",
                                   pause.count() / 1000, error.message)},
            MergeLater{pause}};
  }
  if (in.now.wall < *in.job.start_after) {
    return {};
  }
  return {Enter{.stage = Stage::kMerging, .until = in.job.stage_until}, MergeArtifacts{}};
}

Actions give_up_merge(const Situation& in, const Error& error) {
  const std::string text = fmt::format("the results of the instances lie in {}, not joined: {}",
                                       parts_place(in.job), error.message);
  // Which of several objects is there is not known here.
  const bool is_model_joined =
      std::none_of(in.job.merges.begin(), in.job.merges.end(),
                   [&](const Merge& merge) { return merge.target == model_uri(in.job); });
  const Secondary status = outcome_of(in.job).status;
  const std::string missing = missing_results(in);
  Actions actions{Enter{.stage = Stage::kReleasing,
                        .has_model = is_model_joined && has_model(in.facts, status),
                        .missing = missing.empty() ? text : missing + "; " + text},
                  ReleaseGang{}};
  if (status != Secondary::kCompleted) {
    return actions;
  }
  const Code code = may_join_later(error) ? Code::kInternal : error.code;
  return Actions{failed(in.now.wall, reason_of(Error{.code = code, .message = text}))} +
         std::move(actions);
}

Actions while_merging(const Situation& in) {
  if (Actions stop = stop_while_uploading(in); !stop.empty()) {
    return stop;
  }
  if (!in.facts.call) {
    return {};
  }
  if (*in.facts.call) {
    return release_after_upload(in);
  }
  const Error& error = in.facts.call->error();
  return may_join_later(error) && in.now.wall < in.job.stage_until.value_or(in.now.wall)
             ? merge_again(in, error)
             : give_up_merge(in, error);
}

// Of a job that lost nothing, as far as is known.
std::string why_no_model(const Situation& in) {
  if (outcome_of(in.job).status != Secondary::kCompleted && !in.job.training_start) {
    return "its program had not started, so there is no model";
  }
  const auto& all = in.facts.instances;
  const bool has_exit =
      std::ranges::any_of(all, [](const auto& one) { return one.exit.has_value(); });
  return has_exit ? "/opt/ml/model was empty, so there is no model"
                  : "no instance had anything to send, so there is no model";
}

Actions while_releasing(const Situation& in) {
  if (!in.facts.call) {
    return {};
  }
  const Secondary status = outcome_of(in.job).status;
  std::string message = final_message(status);
  if (!in.job.missing.empty()) {
    message += "; " + in.job.missing;
  } else if (!in.job.has_model && status != Secondary::kFailed) {
    message += "; " + why_no_model(in);
  }
  return {SetStatus{status, std::move(message)}, Enter{.stage = Stage::kDone}};
}

Actions next(const Situation& in) {
  switch (in.job.stage) {
    case Stage::kNew:
      return begin_job(in);
    case Stage::kChecking:
      return while_checking(in);
    case Stage::kWaiting:
      return while_waiting(in);
    case Stage::kPreparing:
    case Stage::kLaunching:
    case Stage::kRelaunching:
      return while_starting(in);
    case Stage::kRegrouping:
      return while_regrouping(in);
    case Stage::kRunning:
      return while_running(in);
    case Stage::kRecovering:
      return while_recovering(in);
    case Stage::kEnding:
      return while_ending(in);
    case Stage::kUploading:
      return while_uploading(in);
    case Stage::kMerging:
      return while_merging(in);
    case Stage::kReleasing:
      return while_releasing(in);
    case Stage::kDone:
      return {};
  }
  return {};
}

}  // namespace

std::vector<Action> decide(const Job& job, const Facts& facts, const CapacityView& view,
                           const Limits& limits, const Now& now) {
  Actions actions = next({job, facts, view, limits, now});
  // Saying again what is said already is no action.
  std::erase_if(actions, [&](const Action& action) {
    const auto* message = std::get_if<SetMessage>(&action);
    return message != nullptr && job.transitions.back().message == message->message;
  });
  return actions;
}

}  // namespace trainyard::control
