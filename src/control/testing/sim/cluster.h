// SPDX-License-Identifier: Apache-2.0
// The machines of the simulation: an engine, and instances that speak the real protocol as the real
// ones do. They die, fall silent and wake up again, their links are cut, the engine's calls fail.
// What a server must never do to them, or let them do, is checked here.
#pragma once

#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "control/control.h"
#include "control/testing/sim/world.h"
#include "s3/object_store.h"
#include "wire/messages.h"

namespace trainyard::control {

class SimCluster;

// What the user's program of a job does.
struct SimProgram {
  Duration download{1000};
  Duration train{8000};
  bool fails = false;        // exits with 3 on algo-1
  bool lacks_data = false;   // a channel is not there
  bool many_models = false;  // every host writes one
};

// A supervisor and the program under it.
class SimInstance {
 public:
  SimInstance(SimCluster& cluster, RunningInstance id, std::string token, SimProgram program);

  void begin();  // by its assignment
  void die();
  void freeze(Duration time);
  void cut(Duration time);
  void notice_lost_peer();

  std::string name() const;
  const RunningInstance& id() const { return id_; }
  bool is_alive() const { return is_alive_; }
  bool is_reachable() const { return is_alive_ && !is_frozen() && !is_cut(); }
  bool is_silent() const { return is_frozen() || is_cut(); }
  bool has_been_ready() const { return phase_ >= wire::Phase::kReady; }
  int epoch() const { return epoch_; }  // that it speaks for; 0: it has no assignment yet
  void become_zombie() { is_zombie_ = true; }
  bool is_zombie() const { return is_zombie_; }

 private:
  using Then = std::function<void(Result<nlohmann::json>)>;
  bool is_frozen() const;
  bool is_cut() const;
  void later(Duration time, std::function<void()> what);
  void run(int generation, const std::function<void()>& what);
  void ask(Duration patience, std::function<void(SimServer&, SimAnswer)> serve, Then then);
  InstanceCaller caller() const;
  void check_standing(std::string_view call, bool is_served, bool is_of_old_epoch);

  void take_assignment(const nlohmann::json& json);
  void fetch_credentials();
  void prepare();
  void report(wire::Report report);
  void post_reports();
  void take_acknowledgement(const Result<nlohmann::json>& answer);
  void beat();
  void poll();
  void check_commands(const nlohmann::json& list, const InstanceCaller& by);
  void take(const wire::Command& command);
  void start_program();
  void end_program(wire::Exit exit);
  void stop_program();
  void upload(const wire::Command& command);
  void write(const std::vector<wire::ArtifactUpload>& uploads);
  void finish();
  void leave();

  SimCluster& cluster_;
  SimWorld& world_;
  RunningInstance id_;
  std::string token_;
  SimProgram program_;
  bool is_alive_ = true;
  bool is_zombie_ = false;  // lost to the engine, but not dead
  SteadyTime frozen_until_{};
  SteadyTime cut_until_{};

  int generation_ = 0;  // what was planned before a restart does not happen
  int epoch_ = 0;
  std::size_t hosts_ = 0;
  std::string key_;
  wire::Phase phase_ = wire::Phase::kStarting;
  bool is_stopping_ = false;
  bool is_finished_ = false;
  std::int64_t seq_ = 0;
  std::int64_t heard_ = 0;
  std::deque<wire::Report> unsent_;
  bool is_posting_ = false;
};

class SimCluster final : public Engine {
 public:
  SimCluster(SimWorld& world, s3::ObjectStore& objects) : world_(world), objects_(objects) {}

  Result<GangNetwork> prepare(const GangRequest& request) override;
  Result<void> start(const GangId& id, const std::vector<InstanceStart>& instances) override;
  Result<std::vector<RunningInstance>> list() override;
  Result<void> release(const GangId& id) override;
  void on_exit(std::function<void(const RunningInstance&)> callback) override {
    callback_ = std::move(callback);
    ++listener_;
  }

  void set_program(const std::string& job, const SimProgram& program) { programs_[job] = program; }
  // Of the calls that may fail, this part does.
  void fail_calls(double part) { failing_ = part; }
  // Null when none lives.
  SimInstance* any_living();
  void die(SimInstance& instance);

  // Asked after every event.
  void check();
  bool runs_anything_of(const std::string& job) const;
  // Names what lives, but for those that are out of reach and silent.
  std::vector<std::string> leftovers() const;
  bool lives(const std::string& job, const std::string& host) const;  // the newest of its kind
  // A gang that could not be given back may run on: nobody can help it.
  bool is_stuck(const std::string& job) const { return stuck_.contains(job); }

  // For instances.
  SimWorld& world() { return world_; }
  s3::ObjectStore& objects() { return objects_; }
  void left(const SimInstance& instance);
  bool was_replaced(const SimInstance& instance) const;
  bool has_lost_peers(const SimInstance& instance) const;
  void check_barrier(const SimInstance& opened, std::size_t hosts);

 private:
  bool fails() { return world_.dice.chance(failing_); }
  void replace(const GangId& id, const std::string& host);
  void tell_exit(const RunningInstance& id);

  SimWorld& world_;
  s3::ObjectStore& objects_;
  std::function<void(const RunningInstance&)> callback_;
  int listener_ = 0;  // whose it is
  std::map<std::string, SimProgram> programs_;
  std::vector<std::unique_ptr<SimInstance>> instances_;  // in the order of their starts
  std::set<std::string> stuck_;
  double failing_ = 0;
};

}  // namespace trainyard::control
