// SPDX-License-Identifier: Apache-2.0
#include "control/run/reconciler.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "base/log.h"
#include "control/decide/signal.h"
#include "control/run/clock_jump.h"
#include "control/run/command_list.h"
#include "control/run/pause.h"
#include "control/tables/identity_table.h"

namespace trainyard::control {
namespace {

constexpr std::chrono::milliseconds kTick{500};
constexpr std::chrono::seconds kAnswer{10};
constexpr std::size_t kEventsAtOnce = 64;  // stored together when they come together
// decide() comes to rest after a few steps; more is a loop.
constexpr int kStepsAtOnce = 64;

// Asks the reconciler's thread, and waits for what it answers; else for `unanswered`.
template <typename T>
Result<T> ask(EventQueue& events, Event event, std::promise<Result<T>>& answer,
              const std::function<Error()>& unanswered) {
  auto future = answer.get_future();
  const bool taken = events.push(std::move(event));
  if (!taken || future.wait_for(kAnswer) != std::future_status::ready) {
    return unanswered();
  }
  return future.get();
}

Error no_unfinished_job() {
  return {.code = Code::kNotFound, .message = "no unfinished job has this name"};
}

}  // namespace

Reconciler::Reconciler(Surroundings around, std::shared_ptr<EventQueue> events)
    : around_(std::move(around)),
      events_(std::move(events)),
      last_tick_(now().steady),
      last_turn_(last_tick_),
      orphans_sought_(last_tick_),
      clock_known_(now()) {}

Reconciler::~Reconciler() {
  events_->close();
}

void Reconciler::start() {
  thread_ = start_thread("reconciler", [this](const std::stop_token& stop) { run(stop); });
}

Now Reconciler::now() const {
  const Clock& clock = around_.outside.clock;
  return {.wall = clock.now(), .steady = clock.steady_now()};
}

Result<void> Reconciler::stop_job(const std::string& name) {
  auto answer = std::make_shared<std::promise<Result<void>>>();
  return ask(*events_, StopAsked{.name = name, .answer = answer}, *answer,
             [this] { return unanswered(); });
}

Result<std::vector<std::string>> Reconciler::signal_job(const std::string& name,
                                                        wire::UserSignal signal) {
  auto answer = std::make_shared<std::promise<Result<std::vector<std::string>>>>();
  return ask(*events_, SignalAsked{.name = name, .signal = signal, .answer = answer}, *answer,
             [this] { return unanswered(); });
}

std::string Reconciler::store_problem() const {
  const MutexLock lock(store_mutex_);
  return store_problem_;
}

Error Reconciler::unanswered() const {
  const std::string problem = store_problem();
  return {.code = Code::kUnavailable,
          .message = problem.empty()
                         ? "the server is busy or stopping: try again"
                         : "the server cannot store it (" + problem +
                               "); it is done as soon as that is mended: make room on its disk"};
}

void Reconciler::note_store_problem(const std::string& problem) {
  const MutexLock lock(store_mutex_);
  if (!problem.empty() && store_problem_.empty()) {
    log_error(fmt::format("storing jobs: {}; trying again", problem));
  }
  store_problem_ = problem;
}

void Reconciler::run(const std::stop_token& stop) {
  while (true) {
    std::vector<Event> events;
    std::optional<Event> event = events_->pop_for(kTick);
    if (!event && stop.stop_requested()) {
      return;
    }
    while (event) {
      events.push_back(std::move(*event));
      event = events.size() < kEventsAtOnce ? events_->pop_for(std::chrono::milliseconds(0))
                                            : std::nullopt;
    }
    take(events);
  }
}

void Reconciler::take(const std::vector<Event>& events) {
  notice_pause();
  notice_clock();
  for (const Event& event : events) {
    handle(event);
  }
  if (events.empty() || now().steady - last_tick_ >= kTick) {
    on(Tick{});
    last_tick_ = now().steady;
  }
  reconcile();
}

// Before the events: what is heard now was said after the pause, or before it.
void Reconciler::notice_pause() {
  const Now at = now();
  const Duration pause = pause_between(std::exchange(last_turn_, at.steady), at.steady, kTick);
  if (pause.count() == 0) {
    return;
  }
  log_warning(fmt::format("this server did nothing for {} ms: silence of instances counts from now",
                          pause.count()));
  for (auto& [name, active] : jobs_) {
    forgive(pause, at, active.job, active.facts);
    dirty_.insert(name);
  }
}

void Reconciler::notice_clock() {
  const Now at = now();
  const Duration jump = jump_between(clock_known_, at);
  if (jump.count() == 0) {
    return;
  }
  clock_known_ = at;
  log_warning(fmt::format("the clock of this machine was set by {} ms: limits of jobs follow it",
                          jump.count()));
  for (auto& [name, active] : jobs_) {
    follow(jump, active.job, active.facts);
    dirty_.insert(name);
  }
}

void Reconciler::handle(const Event& event) {
  std::visit([this](const auto& fact) { on(fact); }, event);
}

Reconciler::Active* Reconciler::find(const std::string& name) {
  const auto found = jobs_.find(name);
  return found == jobs_.end() ? nullptr : &found->second;
}

// Null for a job that is not unfinished. A stop may overtake the news of the creation. Nobody tells
// of a new job twice: one that cannot be read now is read again at the next tick.
Result<Reconciler::Active*> Reconciler::load(const std::string& name) {
  if (Active* active = find(name)) {
    return active;
  }
  auto job =
      around_.database.read([&](Connection& connection) { return find_job(connection, name); });
  if (!job) {
    if (unread_.insert(name).second) {
      log_error(fmt::format("reading job {}: {}; trying again", name, job.error().message));
    }
    return std::move(job).error();
  }
  unread_.erase(name);
  std::optional<Job> stored = std::move(*job);
  if (!stored || stored->stage == Stage::kDone) {
    return nullptr;
  }
  return &(jobs_[name] = Active{.job = std::move(*stored)});
}

void Reconciler::on(const JobCreated& event) {
  if (const auto active = load(event.name); active && *active != nullptr) {
    touched_.insert(event.name);
  }
}

void Reconciler::on(const StopAsked& event) {
  const Result<Active*> loaded = load(event.name);
  if (!loaded) {
    event.answer->set_value(Error{
        .code = Code::kUnavailable,
        .message =
            fmt::format("the job cannot be read now: {}; try again", loaded.error().message)});
    return;
  }
  Active* active = *loaded;
  if (active == nullptr) {
    event.answer->set_value(no_unfinished_job());
    return;
  }
  if (!active->job.stop_requested) {
    active->job.stop_requested = now().wall;
    turns_may_differ_ = true;
    dirty_.insert(event.name);
  }
  touched_.insert(event.name);
  answers_.emplace_back([answer = event.answer] { answer->set_value(Result<void>()); });
}

void Reconciler::on(const SignalAsked& event) {
  Active* active = find(event.name);
  if (active == nullptr) {
    event.answer->set_value(no_unfinished_job());
    return;
  }
  const auto sends = plan_sends(*active, event.signal);
  if (!sends) {
    event.answer->set_value(sends.error());
    return;
  }
  std::vector<std::string> hosts;
  for (const Send& send : *sends) {
    collect(*active, send);
    hosts.push_back(send.host);
  }
  answers_.emplace_back(
      [answer = event.answer, hosts = std::move(hosts)] { answer->set_value(hosts); });
}

// All are told, or none.
Result<std::vector<Send>> Reconciler::plan_sends(const Active& active, wire::UserSignal signal) {
  YARD_TRY(std::vector<Send> sends, plan_signal(active.job, active.facts, signal, now()));
  for (const Send& send : sends) {
    const std::int64_t taken = around_.sessions.taken_commands(
        {.job = active.job.name, .epoch = active.job.epoch, .host = send.host});
    const auto commands = active.commands.find(send.host);
    if (commands != active.commands.end() &&
        count_waiting(commands->second, taken) >= kMostWaitingCommands) {
      return Error{.code = Code::kExhausted,
                   .message = fmt::format("{} cannot be sent to the training job '{}': {} has yet "
                                          "to take {} commands. Send signals more slowly.",
                                          wire::name_of(signal), active.job.name, send.host,
                                          kMostWaitingCommands)};
    }
  }
  return sends;
}

void Reconciler::on(const News& event) {
  Active* active = find(event.key.job);
  if (active == nullptr || active->job.epoch != event.key.epoch) {
    return;
  }
  for (InstanceFacts& instance : active->facts.instances) {
    if (instance.host != event.key.host) {
      continue;
    }
    std::int64_t& heard = active->acknowledged[instance.host];
    if (event.acknowledged >= heard) {
      InstanceFacts facts = event.facts;
      // Times that are known already have followed the clock, if it was set meanwhile.
      if (event.acknowledged == heard) {
        facts.heard = instance.heard;
      }
      if (facts.exit && instance.exit) {
        facts.exit->at = instance.exit->at;
      }
      heard = event.acknowledged;
      facts.supervisor_ended = instance.supervisor_ended;
      facts.last_report = instance.last_report;
      instance = std::move(facts);
    }
    // One from before a pause of ours does not bring back the silence that was forgiven.
    const SteadyTime known = instance.last_report.value_or(event.received).steady;
    instance.last_report = {event.received.wall, std::max(known, event.received.steady)};
    touched_.insert(event.key.job);
  }
}

void Reconciler::on(const SupervisorEnded& event) {
  Active* active = find(event.instance.id.job);
  if (active == nullptr || gang_of(active->job) != event.instance.id) {
    return;
  }
  for (InstanceFacts& instance : active->facts.instances) {
    if (instance.host == event.instance.host && instance.incarnation == event.instance.epoch) {
      instance.supervisor_ended = true;
      touched_.insert(event.instance.id.job);
    }
  }
}

void Reconciler::on(const CallDone& event) {
  Active* active = find(event.job);
  const bool is_current = active != nullptr && active->job.sequence == event.sequence &&
                          active->job.epoch == event.epoch && active->job.stage == event.stage;
  if (!is_current) {
    return;
  }
  if (!event.result) {
    log_warning(fmt::format("job {}, while {}: {}", event.job, name_of(event.stage),
                            event.result.error().message));
  }
  active->facts.call = event.result;
  if (event.stage == Stage::kPreparing && event.result) {
    active->job.network = event.network;
  }
  touched_.insert(event.job);
}

// What they say is told when it is stored: until then a slow disk would make them look silent.
void Reconciler::hear_those_stored() {
  const Now at = now();
  for (const InstanceKey& key : around_.sessions.storing()) {
    Active* active = find(key.job);
    if (active == nullptr || active->job.epoch != key.epoch) {
      continue;
    }
    for (InstanceFacts& instance : active->facts.instances) {
      if (instance.host == key.host) {
        instance.last_report = {instance.last_report.value_or(at).wall, at.steady};
      }
    }
  }
}

void Reconciler::on(const Tick&) {
  hear_those_stored();
  for (const std::string& name : std::set(unread_)) {
    on(JobCreated{.name = name});
  }
  for (const auto& [name, active] : jobs_) {
    touched_.insert(name);
  }
  around_.sessions.expire();
  seek_orphans();
}

// Thousands may wait: only those are decided about whose turn or message may have changed.
void Reconciler::plan_turns() {
  if (!std::exchange(turns_may_differ_, false)) {
    return;
  }
  std::vector<const Job*> all;
  all.reserve(jobs_.size());
  for (const auto& [name, active] : jobs_) {
    all.push_back(&active.job);
  }
  auto before = std::exchange(turns_, plan_queue(all, around_.config.machine));
  auto known = before.cbegin();
  for (const auto& [name, view] : turns_) {
    while (known != before.cend() && known->first < name) {
      ++known;
    }
    if (known == before.cend() || known->first != name || known->second != view) {
      touched_.insert(name);
    }
  }
}

void Reconciler::reconcile() {
  const Now at = now();
  plan_turns();
  for (int round = 0; !touched_.empty(); ++round) {
    YARD_CHECK(round < kStepsAtOnce, "decide() does not come to rest");
    for (const std::string& name : std::exchange(touched_, {})) {
      const auto turn = turns_.find(name);
      Active* active = find(name);
      if (active != nullptr &&
          step(*active, turn == turns_.end() ? CapacityView() : turn->second, at)) {
        touched_.insert(name);  // there may be more to do
      }
    }
    plan_turns();
  }
  flush();
}

bool Reconciler::step(Active& active, const CapacityView& view, const Now& at) {
  const Stage stage = active.job.stage;
  const auto actions = decide(active.job, active.facts, view, around_.config.limits, at);
  for (const Action& action : actions) {
    log_debug(fmt::format("job {}: {}", active.job.name, describe(action)));
    apply(action, at, active.job, active.facts);
    collect(active, action);
  }
  if (!actions.empty()) {
    dirty_.insert(active.job.name);
    turns_may_differ_ = turns_may_differ_ || active.job.stage != stage;
  }
  return !actions.empty();
}

void Reconciler::collect(Active& active, const Action& action) {
  if (std::holds_alternative<NextEpoch>(action)) {
    active.commands.clear();
    active.acknowledged.clear();
  }
  if (is_value(action)) {
    return;
  }
  Effect effect{.job = active.job.name, .action = action};
  if (const Send* send = std::get_if<Send>(&action)) {
    add_command(active, *send, effect);
  }
  if (const StartGang* start = std::get_if<StartGang>(&action)) {
    prepare_start(active, *start, effect);
  }
  effects_.push_back(std::move(effect));
}

void Reconciler::add_command(Active& active, const Send& send, Effect& effect) {
  auto& commands = active.commands[send.host];
  effect.to = {.job = active.job.name, .epoch = active.job.epoch, .host = send.host};
  control::add_command(commands,
                       {.kind = send.kind,
                        .model = send.upload.model,
                        .output = send.upload.output,
                        .signal = send.signal},
                       around_.sessions.taken_commands(effect.to));
  effect.commands = commands;
}

void Reconciler::flush() {
  if (dirty_.empty() && effects_.empty() && answers_.empty()) {
    return;
  }
  const auto stored =
      around_.database.write([this](Connection& connection) { return write(connection); });
  if (!stored) {
    note_store_problem(stored.error().message);
    return;
  }
  note_store_problem({});
  for (const std::function<void()>& answer : std::exchange(answers_, {})) {
    answer();
  }
  for (Effect& effect : std::exchange(effects_, {})) {
    perform(effect);
  }
  for (const std::string& name : std::exchange(dirty_, {})) {
    const Active* active = find(name);
    if (active != nullptr && active->job.stage == Stage::kDone) {
      log_info(fmt::format("job {} is {}", name, name_of(active->job.secondary)));
      jobs_.erase(name);
    }
  }
}

Result<void> Reconciler::write(Connection& connection) {
  for (const std::string& name : dirty_) {
    if (Active* active = find(name)) {
      active->job.stored_at = around_.outside.clock.now();
      YARD_TRY(update_job(connection, active->job));
    }
  }
  for (const Effect& effect : effects_) {
    YARD_TRY(write_effect(connection, effect));
  }
  return {};
}

Result<void> Reconciler::write_effect(Connection& connection, const Effect& effect) {
  if (std::holds_alternative<Send>(effect.action)) {
    return save_commands(connection, effect.to, effect.commands);
  }
  const bool starts = std::holds_alternative<StartGang>(effect.action);
  if (starts || std::holds_alternative<ReleaseGang>(effect.action)) {
    YARD_TRY(delete_instances(connection, effect.job));
  }
  for (const InstanceRow& row : effect.rows) {
    YARD_TRY(delete_keys_of(connection, effect.job, row.key.epoch - 1));
    YARD_TRY(insert_instance(connection, row));
  }
  return {};
}

}  // namespace trainyard::control
