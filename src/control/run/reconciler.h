// SPDX-License-Identifier: Apache-2.0
// The one thread that owns unfinished jobs. Events come in through a bounded queue: a job was
// created, a stop was asked, an instance spoke or ended, a call came back, time passed. After each
// it lets decide() choose, stores what changed in one transaction, and only then acts: what has not
// been stored has not happened. Calls that block (engine, object store) run in the background and
// come back as events. It works at once when an event comes; the tick is for deadlines only. A
// simulation drives it without the thread, turn by turn.
#pragma once

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/thread.h"
#include "control/config.h"
#include "control/control.h"
#include "control/decide/decide.h"
#include "control/identity.h"
#include "control/run/sessions.h"

namespace trainyard::control {

// Runs a task that may block, later and not in the caller's thread.
using Background = std::function<void(std::function<void()>)>;

// What the reconciler works with. All outlive it.
struct Surroundings {
  const ControlOptions& options;
  const Config& config;
  Outside& outside;
  Database& database;
  LogStore& logs;
  Identity& identity;
  Sessions& sessions;
  // For calls of the engine, and of the object store, whose checks and copies may take long and
  // must not hold up a start or a repair.
  Background background;
  Background store_background;
};

struct JobCreated {
  std::string name;
};
struct StopAsked {
  std::string name;
  // Shared with the caller, who may have stopped waiting.
  std::shared_ptr<std::promise<Result<void>>> answer;
};
struct SignalAsked {
  std::string name;
  wire::UserSignal signal;
  // As above: the hosts that are told.
  std::shared_ptr<std::promise<Result<std::vector<std::string>>>> answer;
};
struct SupervisorEnded {
  RunningInstance instance;
};
// The call of a stage has come back.
struct CallDone {
  std::string job;
  std::int64_t sequence;  // another job may have its name by now
  int epoch;
  Stage stage;
  Result<void> result;
  GangNetwork network = {};  // of kPreparing
};
struct Tick {};
using Event =
    std::variant<JobCreated, StopAsked, SignalAsked, News, SupervisorEnded, CallDone, Tick>;
using EventQueue = BoundedQueue<Event>;

class Reconciler {
 public:
  // `events` is shared with the engine's callback, which may outlive the reconciler.
  Reconciler(Surroundings around, std::shared_ptr<EventQueue> events);
  ~Reconciler();  // finishes the event at hand; jobs go on

  // Loads unfinished jobs, finds their running gangs, gives back those that belong to nobody. Ends
  // when what follows is stored: before that, nobody may ask the sessions.
  Result<void> adopt();
  void start();
  // One turn of the thread: handles what has come, and decides. No event: time has passed.
  void take(const std::vector<Event>& events);

  // Thread-safe. Waits until the stop is stored: kNotFound for a job that is not unfinished.
  Result<void> stop_job(const std::string& name);
  // Thread-safe. The hosts that are told, once that is stored: kNotFound as above, kConflict when
  // its program does not run, kExhausted when an instance has too many yet to take.
  Result<std::vector<std::string>> signal_job(const std::string& name, wire::UserSignal signal);

 private:
  struct Active {
    Job job;
    Facts facts = {};
    std::map<std::string, std::vector<wire::Command>> commands = {};  // by host
    std::map<std::string, std::int64_t> acknowledged = {};            // by host
    std::map<std::string, std::string> token_hashes = {};             // by host
  };
  // With what it needs as it was decided: what follows may be decided before it is performed.
  struct Effect {
    std::string job;
    Action action;
    std::vector<InstanceRow> rows = {};         // of StartGang
    std::vector<InstanceStart> instances = {};  // of StartGang; holds the tokens
    InstanceKey to = {};                        // of Send
    std::vector<wire::Command> commands = {};   // of Send: all that wait
  };
  void run(const std::stop_token& stop);
  void notice_pause();
  void notice_clock();
  void handle(const Event& event);
  void on(const JobCreated& event);
  void on(const StopAsked& event);
  void on(const SignalAsked& event);
  void on(const News& event);
  void on(const SupervisorEnded& event);
  void on(const CallDone& event);
  void on(const Tick& event);
  Active* find(const std::string& name);
  Result<Active*> load(const std::string& name);
  void hear_those_stored();

  void reconcile();
  void plan_turns();
  bool step(Active& active, const CapacityView& view, const Now& now);
  void collect(Active& active, const Action& action);
  void prepare_start(Active& active, const StartGang& start, Effect& effect);
  void add_command(Active& active, const Send& send, Effect& effect);
  Result<std::vector<Send>> plan_sends(const Active& active, wire::UserSignal signal);

  void flush();
  void note_store_problem(const std::string& problem);  // of a write; empty: it went well
  std::string store_problem() const;                    // empty: the last write went well
  Error unanswered() const;                             // what is said to who asked meanwhile
  Result<void> write(Connection& connection);
  static Result<void> write_effect(Connection& connection, const Effect& effect);
  void perform(Effect& effect);
  void call(const Background& run, const Job& job, std::function<Result<void>(GangNetwork&)> body);
  void open_sessions(const Job& job, const std::vector<InstanceRow>& rows);
  void start_gang(const Job& job, Effect& effect);
  void release(const Job& job);
  std::string gang_secret_of(const Job& job) const;
  wire::Assignment assignment_of(const Job& job, const std::string& host) const;

  Result<void> adopt_job(Job job, const std::vector<RunningInstance>* running);
  void resume(Active& active, const std::vector<RunningInstance>* running);
  void resume_start(Active& active, const std::vector<RunningInstance>* running);
  void add_effect(const Job& job, Action action);
  void release_orphans(const std::vector<RunningInstance>& running);
  void seek_orphans();
  Now now() const;

  Surroundings around_;
  std::shared_ptr<EventQueue> events_;
  std::map<std::string, Active> jobs_;
  std::set<std::string> unread_;                // new jobs that could not be read yet
  std::set<std::string> touched_;               // to be decided about
  std::set<std::string> dirty_;                 // to be stored
  std::map<std::string, CapacityView> turns_;   // of those that wait for capacity
  bool turns_may_differ_ = true;                // a stage has changed, as a new job's does at once
  std::vector<Effect> effects_;                 // to be performed once stored
  std::vector<std::function<void()>> answers_;  // to be given once stored
  mutable Mutex store_mutex_;
  std::string store_problem_ GUARDED_BY(store_mutex_);  // of the last write; empty: none
  SteadyTime last_tick_{};
  SteadyTime last_turn_{};
  SteadyTime orphans_sought_{};
  Now clock_known_{};    // the wall clock as it was set when we last looked
  std::jthread thread_;  // last: ends before what it uses
};

}  // namespace trainyard::control
