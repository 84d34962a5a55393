// SPDX-License-Identifier: Apache-2.0
#include "instance/session.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "instance/faults.h"
#include "instance/launch/installer.h"
#include "instance/launch/interfaces.h"
#include "instance/launch/request.h"
#include "instance/machine.h"
#include "instance/run/flight_records.h"
#include "instance/run/rank_places.h"
#include "instance/run/writable_layer.h"
#include "instance/transfer/artifacts.h"
#include "instance/transfer/channels.h"
#include "instance/transfer/code.h"
#include "instance/transfer/upload_patience.h"
#include "sandbox/cgroup.h"
#include "wire/upload_error.h"

namespace trainyard::instance {
namespace {

constexpr Duration kFlushTurn{50};
constexpr Duration kShortWord{3000};
constexpr Duration kLastSearch{5000};  // of lines that wait to be searched for metrics

Error stopped_error() {
  return Error{Code::kCancelled, "stopped before the program was started"};
}

}  // namespace

SessionEnd Session::run() {
  live();
  if (!leaves_early() && !restart_) {
    say_last_word();
  } else if (leaves_early()) {
    in_.reporter.drain(kShortWord);
  }
  if (leaves_early()) {
    return SessionEnd::kLeft;
  }
  return restart_ ? SessionEnd::kRestart : SessionEnd::kDone;
}

// A server that is away must still hear that all has been sent, or the job is done again: it is
// waited for as long as with results that are not sent. A restart or a signal may come instead of
// its acknowledgement.
void Session::say_last_word() {
  const SteadyTime until = in_.clock.steady_now() + in_.assignment.orphan_limit;
  Duration left = in_.assignment.orphan_limit;
  bool is_heard = false;
  do {
    is_heard = in_.reporter.drain(std::min(left, kEventInterval));
    while (std::optional<Event> event = in_.inbox.next(Duration(0))) {
      take(std::move(*event));
    }
    left = std::chrono::ceil<Duration>(until - in_.clock.steady_now());
  } while (!is_heard && !restart_ && !leaves_early() && left.count() > 0);
  if (!is_heard && !restart_ && !leaves_early()) {
    log_error(describe(OrphanStep::kLeave, orphan_limits(in_.assignment), in_.scratch.string()));
    orphaned_ = true;
  }
}

void Session::live() {
  in_.reporter.phase(wire::Phase::kStarting);
  if (const Result<void> prepared = prepare(); prepared) {
    in_.reporter.phase(wire::Phase::kReady);
    while (!go_ && !stopping_) {
      wait_for_event();
    }
    if (stopping_) {
      report_stopped();
    } else {
      train();
    }
  } else if (stopping_ || in_.inbox.stopped().stop_requested()) {
    report_stopped();
  } else {
    log_error(prepared.error().message);
    in_.reporter.error(prepared.error());
  }
  finish();
}

Result<void> Session::prepare() {
  if (std::exchange(in_.carried.is_used, true)) {
    const std::string layered = std::exchange(in_.carried.layered, {});
    if (Result<void> cleared = clear_scratch(in_.scratch, layered); !cleared) {
      return platforms_fault(cleared.error().in("clearing away the attempt before"));
    }
  }
  Result<ContainerPlaces> places =
      make_places(in_.assignment, in_.scratch, own_environment(), in_.shared.has_value());
  if (!places) {
    return platforms_fault(std::move(places).error());
  }
  places_ = std::move(*places);
  if (Result<void> made = make_rank_places(in_.meeting, in_.assignment.epoch, places_); !made) {
    return platforms_fault(std::move(made).error());
  }
  layer_python();
  YARD_TRY(const LaunchForm form, launch_form(in_.assignment));
  in_.reporter.phase(wire::Phase::kDownloading);
  const ProgressSinks sinks{
      .message = [this](const std::string& text) { tell(text); },
      .note = [this](std::string text) { in_.reporter.note(std::move(text)); }};
  YARD_TRY(const std::vector<std::string> remarks,
           fetch_channels(in_.assignment, in_.downloads, ml(), sinks, in_.inbox.stopped()));
  if (!remarks.empty()) {
    remark_ = "; " + join(remarks, "; ");
    tell("Input data downloaded");
  }
  YARD_TRY(restore_checkpoints(sinks));
  return make_ready(form);
}

Result<void> Session::restore_checkpoints(const ProgressSinks& sinks) {
  const nlohmann::json& request = in_.assignment.request;
  YARD_TRY(const std::optional<CheckpointPlace> place, checkpoint_place(request, in_.scratch));
  if (place) {
    YARD_TRY(make_checkpoint_place(*place, places_));
    checkpoints_ = Checkpoints(*place);
  } else if (flag_at(request, "EnableManagedSpotTraining")) {
    sinks.note(
        "EnableManagedSpotTraining without CheckpointConfig: after an interruption this job begins "
        "anew, for nothing of /opt/ml/checkpoints is kept in S3.");
  }
  return checkpoints_.restore(in_.downloads, sinks, in_.inbox.stopped());
}

Result<void> Session::make_ready(const LaunchForm& form) {
  YARD_TRY(const CodeFacts facts, fetch_code(in_.assignment, form, in_.downloads, ml()));
  ContainerEnvironment environment =
      container_environment(in_.assignment, {.caller = own_environment(),
                                             .credentials_path = in_.credentials_path,
                                             .hidden = hidden_directories(places_),
                                             .shared = in_.shared,
                                             .defaults = rank_place_variables(places_)});
  std::vector<std::string> notes = facts.notes;
  YARD_TRY(settle_interfaces(environment.defaults_and_user, in_.assignment, network_interfaces(),
                             notes));
  places_.files = environment.files;
  std::erase_if(places_.files, [](const VisibleFile& file) {
    std::error_code failed;
    return !std::filesystem::exists(file.source, failed);
  });
  plan_ = launch_plan(in_.assignment, form, facts, environment);
  notes.insert(notes.end(), plan_.notes.begin(), plan_.notes.end());
  for (const std::string& note : notes) {
    in_.reporter.note(note);
  }
  YARD_TRY(check_needs(plan_, ml()));
  return plan_.setup.empty() ? Result<void>() : install(plan_.setup);
}

void Session::tell(const std::string& text) {
  in_.reporter.message(text + remark_);
}

// Without one the program still runs, unless it installs something.
void Session::layer_python() {
  if (places_.python_environment.empty()) {
    return;
  }
  Result<void> layered = mount_layer({.directory = places_.python_environment,
                                      .scratch = in_.scratch / "python-layer",
                                      .without_root = in_.shared.has_value()});
  if (layered) {
    places_.python_is_layered = true;
    in_.carried.layered = places_.python_environment;
    return;
  }
  no_layer_ = std::move(layered).error();
  no_layer_->message = "the Python environment is read-only: " + no_layer_->message;
  in_.reporter.note("No package can be installed in this job: " + no_layer_->message);
}

Result<void> Session::install(const std::vector<SetupStep>& steps) {
  // Another attempt would find the same machine.
  if (no_layer_) {
    return Error{Code::kInvalidArgument,
                 "could not " + steps.front().what + ": " + no_layer_->message};
  }
  for (const SetupStep& step : steps) {
    if (!step.obstacle.empty()) {
      return Error{Code::kInvalidArgument, "could not " + step.what + ": " + step.obstacle};
    }
    tell("Preparing the container: " + step.what);
    const std::vector<Process> processes = {step.process};
    YARD_TRY(const RunOutcome outcome, run_container(processes));
    YARD_TRY(const wire::Exit exit, exit_of(outcome, processes));
    if (exit.stopped) {
      return stopped_error();
    }
    if (exit.code != 0 || exit.signal != 0) {
      const ExitStatus status{.code = exit.code, .signal = exit.signal};
      const std::string advice = installer_advice(exit.last_lines);
      return Error{Code::kInvalidArgument,
                   "could not " + step.what + " (" + to_string(status) +
                       "): " + (advice.empty() ? "" : advice + "; it said: ") +
                       join(exit.last_lines, "\n")};
    }
  }
  return {};
}

void Session::train() {
  in_.reporter.phase(wire::Phase::kTraining);
  if (Result<void> mirrored = start_mirror(); !mirrored) {
    log_error(mirrored.error().message);
    in_.reporter.error(platforms_fault(std::move(mirrored).error()));
    return;
  }
  start_metrics();
  start_raw_output();
  alone_.runs_since = in_.clock.steady_now();
  Result<RunOutcome> outcome = run_container(plan_.processes);
  alone_ = {.idle_since = in_.clock.steady_now()};
  finish_metrics();
  raw_output_.reset();
  if (restart_) {
    return;
  }
  for (std::string& line : keep_flight_records(places_.status, ml(), in_.assignment.host)) {
    in_.reporter.note(std::move(line));
  }
  Result<wire::Exit> exit =
      outcome ? exit_of(*outcome, plan_.processes) : Result<wire::Exit>(outcome.error());
  if (!exit) {
    log_error(exit.error().message);
    flush_checkpoints();
    in_.reporter.error(platforms_fault(std::move(exit).error()));
    return;
  }
  for (const ProcessEnd& end : outcome->ends) {
    if (!end.error.empty()) {
      in_.reporter.note("The program could not be started: " + end.error);
    }
  }
  FailureFile failure = read_failure_file(ml());
  exit->failure_file = std::move(failure.text);
  if (!failure.note.empty()) {
    in_.reporter.note(failure.note);
  }
  exit->has_model = holds_files(ml(), "model");
  exit->has_output = holds_files(ml(), "output/data");
  exit->is_leaving = terminated_;
  exit->is_overdue = exit->stopped && overdue_;
  if (in_.assignment.hosts.size() > 1) {
    exit->model_files = first_names(ml(), "model");
    exit->output_files = first_names(ml(), "output/data");
  }
  // At once, for the peers of a failure wait for nothing; but this host has ended only when its
  // checkpoints are in S3, for nothing is sent later.
  in_.reporter.exit(*exit);
  flush_checkpoints();
  if (!restart_) {
    exit->is_leaving = terminated_;  // a signal may have come meanwhile
    in_.reporter.ended(std::move(*exit));
  }
}

Result<void> Session::start_mirror() {
  return checkpoints_.start(
      in_.checkpoint_store,
      {.progress = {.message = [this](std::string text) { in_.reporter.message(std::move(text)); },
                    .note = [this](std::string text) { in_.reporter.note(std::move(text)); }},
       .lag = [this](const wire::CheckpointLag& lag) { in_.reporter.checkpoints(lag); }},
      in_.clock);
}

void Session::flush_checkpoints() {
  checkpoints_.flush();
  while (!checkpoints_.wait_for_end(kFlushTurn)) {
    while (std::optional<Event> event = in_.inbox.next(Duration(0))) {
      take(std::move(*event));
    }
    if (must_leave()) {
      checkpoints_.cancel();
    }
  }
}

void Session::start_raw_output() {
  if (!wants_raw_output(in_.assignment.request)) {
    return;
  }
  Result<RawOutput> output = RawOutput::open(ml(), in_.assignment.host, plan_.processes);
  if (output) {
    raw_output_ = std::move(*output);
  } else {
    in_.reporter.note("The raw output is not kept: " + output.error().message);
  }
}

void Session::start_metrics() {
  if (const auto definitions = metric_definitions(in_.assignment.request); !definitions.empty()) {
    metrics_ = std::make_unique<MetricWatch>(
        definitions,
        MetricSinks{.points = [this](auto points) { in_.reporter.points(std::move(points)); },
                    .note = [this](std::string text) { in_.reporter.note(std::move(text)); }});
  }
}

void Session::finish_metrics() {
  if (metrics_) {
    metrics_->finish(kLastSearch);
    metrics_.reset();
  }
}

void Session::report_stopped() {
  in_.reporter.ended({.stopped = true, .is_leaving = terminated_, .at = in_.clock.now()});
}

void Session::finish() {
  while (!upload_ && !must_leave()) {
    wait_for_event();
  }
  if (upload_ && !must_leave()) {
    upload(*upload_);
  }
  if (!leaves_early()) {
    in_.reporter.phase(wire::Phase::kFinished);
  }
}

// One error for both, when both have been tried: the first is what the job fails with, and that
// must know whether there is a model.
void Session::upload(const wire::Command& command) {
  in_.reporter.phase(wire::Phase::kUploading);
  const Upload model = upload_one(command.model, "model");
  const Upload output = upload_one(command.output, "output/data");
  std::optional<Error> error = model.error ? model.error : output.error;
  if (!error) {
    return;
  }
  if (model.error && output.error) {
    error->message += "; " + output.error->message;
  }
  error->subject = model.sent ? wire::kModelSent : "";
  log_error(error->message);
  in_.reporter.error(std::move(*error));
}

Session::Upload Session::upload_one(const std::optional<wire::ArtifactUpload>& upload,
                                    const std::string& directory) {
  if (!upload || must_leave()) {
    return {};
  }
  if (Result<void> ready = make_directories(in_.scratch / "empty"); !ready) {
    return {.error = platforms_fault(std::move(ready).error())};
  }
  // What user code may have made of the directory is never followed: a link counts as nothing.
  const Path tree = holds_files(ml(), directory) ? ml() / directory : in_.scratch / "empty";
  const std::string what = "/opt/ml/" + directory;
  if (!upload->note.empty()) {
    in_.reporter.note(upload->note);
  }
  const UploadWait wait{.pause = [this](Duration time) { return wait_to_send(time); },
                        .tell =
                            [this](const std::string& text) {
                              log_warning(text);
                              in_.reporter.note(text);
                              in_.reporter.message(text);
                            }};
  Result<LeftOut> sent = send_until_stored(
      [&] { return upload_artifact(in_.uploads, *upload, tree, what); }, wait, in_.clock);
  if (!sent) {
    return {.error = std::move(sent).error()};
  }
  return {.sent = true,
          .error = sent->count == 0 ? std::nullopt
                                    : std::optional(left_out_error(*sent, *upload, what))};
}

Result<RunOutcome> Session::run_container(const std::vector<Process>& processes) {
  outcome_ = RunOutcome{};
  closed_ = false;
  kill_at_.reset();
  // As the engine has made them: none, where it could not.
  const std::vector<Path> groups = sandbox::read_groups(in_.scratch / "cgroups");
  const std::uint64_t kills_before = out_of_memory_kills(groups);
  PumpSinks sinks{.lines = [this](auto lines) { take_lines(std::move(lines)); },
                  .ended = [this](ProcessEnd end) { in_.inbox.push(std::move(end)); },
                  .closed = [this] { in_.inbox.push(ContainerClosed{}); }};
  if (raw_output_) {
    sinks.raw = [this](int process, std::string_view bytes) { raw_output_->write(process, bytes); };
  }
  sandbox::ContainerSpec spec{
      .hostname = in_.assignment.host, .mounts = container_mounts(places_), .program = {}};
  spec.control_groups = groups;
  spec.has_empty_network = in_.shared && flag_at(in_.assignment.request, "EnableNetworkIsolation");
  Result<std::unique_ptr<ContainerRun>> started =
      ContainerRun::start(std::move(spec), processes, std::move(sinks), in_.clock);
  if (!started) {
    return platforms_fault(std::move(started).error());
  }
  container_ = std::move(*started);
  while (!closed_) {
    wait_for_event();
  }
  outcome_.closed_at = in_.clock.now();
  outcome_.stopped = stopping_;
  outcome_.out_of_memory = out_of_memory_kills(groups) > kills_before;
  tell_kill(processes.size());
  for (std::size_t i = 0; i < processes.size(); ++i) {
    const auto& tail = container_->pump().tail(static_cast<int>(i));
    outcome_.tails.emplace_back(tail.begin(), tail.end());
  }
  const auto& diagnostics = container_->pump().diagnostics();
  outcome_.diagnostics.assign(diagnostics.begin(), diagnostics.end());
  if (container_->pump().is_stuck()) {
    in_.reporter.note(
        "This host does not get rid of a process of the job and goes on without it; " +
        ("its machine should be restarted: " + join(outcome_.diagnostics, "; ")));
  }
  const Result<ExitStatus> status = container_->status();
  container_.reset();
  if (!status) {
    return platforms_fault(status.error());
  }
  outcome_.container = *status;
  return std::move(outcome_);
}

// On the pump's thread.
void Session::take_lines(std::vector<wire::LogLine> lines) {
  if (metrics_) {
    metrics_->offer(lines);
  }
  in_.reporter.lines(std::move(lines));
}

}  // namespace trainyard::instance
