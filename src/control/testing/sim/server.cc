// SPDX-License-Identifier: Apache-2.0
#include "control/testing/sim/server.h"

#include <fmt/format.h>

#include "control/run/credentials.h"
#include "control/tables/schema.h"

namespace trainyard::control {

using nlohmann::json;

Result<std::unique_ptr<SimServer>> SimServer::open(const SimGround& ground) {
  std::unique_ptr<SimServer> server(new SimServer(ground));
  // Nothing speaks to it before it is up, and a crash on the way is no less likely.
  if (!ground.world.is_calm && ground.world.dice.chance(0.1)) {
    server->die_after(static_cast<int>(ground.world.dice.below(4)));
  }
  if (auto started = server->start(); !started) {
    server->finish_some_tasks();
    return started.error();
  }
  return server;
}

SimServer::~SimServer() {
  if (ground_.world.server == this) {
    ground_.world.server = nullptr;
  }
}

Result<void> SimServer::start() {
  const Path& home = ground_.options.home;
  Outside& outside = ground_.outside;
  YARD_TRY(database_, Database::open(home / "trainyard.db", schema_migrations()));
  database_->interrupt_by([this](Database::Moment moment) { return interrupt(moment); });
  YARD_TRY(logs_, LogStore::open(home / "logs", outside.clock));
  YARD_TRY(identity_, Identity::open(*database_, outside.clock, outside.random,
                                     ground_.options.account, home / "credentials"));
  sessions_ = std::make_unique<Sessions>(*database_, *logs_, outside.clock,
                                         [this](News news) { on_news(std::move(news)); });
  around_ = std::make_unique<Surroundings>(
      Surroundings{ground_.options, ground_.config, outside, *database_, *logs_, *identity_,
                   *sessions_, [this](std::function<void()> task) { add_task(std::move(task)); },
                   [this](std::function<void()> task) { add_task(std::move(task)); }});
  reconciler_ = std::make_unique<Reconciler>(*around_, events_);
  training_jobs_ = std::make_unique<TrainingJobs>(*around_, *reconciler_, *events_);
  outside.engine.on_exit([this, self = std::weak_ptr(self_)](const RunningInstance& instance) {
    if (self.lock()) {
      events_->push(SupervisorEnded{instance});
      wake();
    }
  });
  YARD_TRY(reconciler_->adopt());
  tick();
  return {};
}

Result<void> SimServer::interrupt(Database::Moment moment) {
  const Error death{.code = Code::kUnavailable, .message = "the server has died"};
  if (is_dead_) {
    return death;
  }
  if (moment == Database::Moment::kAfterCommit) {
    ++commits_;
  }
  // Half of the deaths are before the commit, half after it.
  if (commits_left_ == 0 && (moment == Database::Moment::kAfterCommit || world_.dice.chance(0.5))) {
    is_dead_ = true;
    return death;
  }
  if (moment == Database::Moment::kAfterCommit && commits_left_ > 0) {
    --commits_left_;
  }
  return {};
}

void SimServer::on_news(News news) {
  events_->push(std::move(news));
  wake();
}

Duration SimServer::pause_left() const {
  const SteadyTime now = world_.clock.steady_now();
  return paused_until_ > now ? std::chrono::ceil<Duration>(paused_until_ - now) : Duration();
}

void SimServer::wake() {
  if (pushed_++ > 0) {
    return;
  }
  world_.timeline.after(pause_left() + world_.dice.between(Duration(0), Duration(20)),
                        [this, self = std::weak_ptr(self_)] {
                          if (self.lock() && !is_dead_) {
                            turn();
                          }
                        });
}

void SimServer::turn() {
  if (pause_left().count() > 0) {
    return world_.timeline.after(pause_left(), [this, self = std::weak_ptr(self_)] {
      if (self.lock() && !is_dead_) {
        turn();
      }
    });
  }
  std::vector<Event> events;
  for (; pushed_ > 0; --pushed_) {
    if (auto event = events_->pop_for(Duration(0))) {
      events.push_back(std::move(*event));
    }
  }
  reconciler_->take(events);
}

void SimServer::tick() {
  world_.timeline.after(Duration(500), [this, self = std::weak_ptr(self_)] {
    if (self.lock() && !is_dead_) {
      turn();
      tick();
    }
  });
}

void SimServer::add_task(std::function<void()> task) {
  const int id = next_task_++;
  tasks_[id] = std::move(task);
  const bool is_slow = !world_.is_calm && world_.dice.chance(0.05);
  world_.timeline.after(
      world_.dice.between(Duration(1), is_slow ? Duration(20'000) : Duration(300)),
      [this, id, self = std::weak_ptr(self_)] {
        if (!self.lock() || is_dead_ || !tasks_.contains(id)) {
          return;
        }
        const std::function<void()> ready = std::move(tasks_.extract(id).mapped());
        ready();
        wake();
      });
}

void SimServer::finish_some_tasks() {
  is_dead_ = true;
  for (const auto& [id, task] : std::exchange(tasks_, {})) {
    if (world_.dice.chance(0.5)) {
      task();
    }
  }
}

Result<json> SimServer::create(const json& request) {
  Result<json> created = training_jobs_->call("CreateTrainingJob", request);
  wake();
  return created;
}

std::future<Result<void>> SimServer::stop(const std::string& job) {
  auto answer = std::make_shared<std::promise<Result<void>>>();
  auto future = answer->get_future();
  events_->push(StopAsked{.name = job, .answer = answer});
  wake();
  return future;
}

void SimServer::signal(const std::string& job, wire::UserSignal signal) {
  events_->push(
      SignalAsked{.name = job,
                  .signal = signal,
                  .answer = std::make_shared<std::promise<Result<std::vector<std::string>>>>()});
  wake();
}

Result<json> SimServer::assignment(const InstanceCaller& caller) {
  return sessions_->assignment(caller);
}

Result<json> SimServer::reports(const InstanceCaller& caller, const json& body) {
  return sessions_->reports(caller, body);
}

Result<json> SimServer::credentials(const InstanceCaller& caller) {
  return credentials_for(caller, *sessions_, *identity_);
}

void SimServer::commands(const InstanceCaller& caller, std::int64_t after, Duration time,
                         SimAnswer answer) {
  sessions_->commands(caller, after, time, std::move(answer));
}

}  // namespace trainyard::control
