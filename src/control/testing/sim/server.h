// SPDX-License-Identifier: Apache-2.0
// A server of the simulation: the parts of Control on a real database, without threads. What
// Control hands to its threads becomes entries of the timeline here. It may die at any transaction:
// whoever owns it then destroys it, and opens the next one on the same files.
#pragma once

#include <memory>
#include <string>

#include "control/control.h"
#include "control/operations/training_jobs.h"
#include "control/run/reconciler.h"
#include "control/testing/sim/world.h"

namespace trainyard::control {

// What outlives a server.
struct SimGround {
  SimWorld& world;
  const ControlOptions& options;
  const Config& config;
  Outside& outside;
};

class SimServer {
 public:
  // An error when it dies on its way up.
  static Result<std::unique_ptr<SimServer>> open(const SimGround& ground);
  ~SimServer();

  Result<nlohmann::json> create(const nlohmann::json& request);
  // The answer comes when the stop is stored, or never.
  std::future<Result<void>> stop(const std::string& job);
  // Its answer is read by nobody.
  void signal(const std::string& job, wire::UserSignal signal);

  // The instance protocol.
  Result<nlohmann::json> assignment(const InstanceCaller& caller);
  Result<nlohmann::json> reports(const InstanceCaller& caller, const nlohmann::json& body);
  Result<nlohmann::json> credentials(const InstanceCaller& caller);
  void commands(const InstanceCaller& caller, std::int64_t after, Duration time, SimAnswer answer);

  // Dies at the commit after `commits` more.
  void die_after(int commits) { commits_left_ = commits; }
  // As SIGSTOP does: it hears nothing and does nothing meanwhile, and then all at once.
  void pause(Duration time) { paused_until_ = world_.clock.steady_now() + time; }
  Duration pause_left() const;
  bool is_dead() const { return is_dead_; }
  // Tasks in flight when a process dies may have done their work.
  void finish_some_tasks();

  Database& database() { return *database_; }
  Identity& identity() { return *identity_; }
  std::int64_t commits() const { return commits_; }

 private:
  explicit SimServer(const SimGround& ground)
      : world_(ground.world), ground_(ground), events_(std::make_shared<EventQueue>(kNoLimit)) {}
  Result<void> start();
  Result<void> interrupt(Database::Moment moment);
  void on_news(News news);
  void wake();
  void turn();
  void tick();
  void add_task(std::function<void()> task);

  static constexpr std::size_t kNoLimit = 1'000'000;  // a wait would never end: there is one thread

  SimWorld& world_;
  SimGround ground_;
  std::unique_ptr<Database> database_;
  std::unique_ptr<LogStore> logs_;
  std::unique_ptr<Identity> identity_;
  std::shared_ptr<EventQueue> events_;
  std::unique_ptr<Sessions> sessions_;
  std::unique_ptr<Surroundings> around_;
  std::unique_ptr<Reconciler> reconciler_;
  std::unique_ptr<TrainingJobs> training_jobs_;
  // Entries of the timeline that belong to this server hold it weakly: they are nothing once it
  // is gone.
  std::shared_ptr<SimServer*> self_ = std::make_shared<SimServer*>(this);
  std::map<int, std::function<void()>> tasks_;  // in flight
  int next_task_ = 0;
  int pushed_ = 0;  // events, at most; an empty queue is slow to say so
  std::int64_t commits_ = 0;
  int commits_left_ = -1;  // before it dies; negative: it lives on
  bool is_dead_ = false;
  SteadyTime paused_until_{};
};

}  // namespace trainyard::control
