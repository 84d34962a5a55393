// SPDX-License-Identifier: Apache-2.0
#include "control/control.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/validate.h"
#include "base/log.h"
#include "base/text.h"
#include "control/logs/log_operations.h"
#include "control/metrics/metric_operations.h"
#include "control/operations/iam.h"
#include "control/operations/training_jobs.h"
#include "control/run/credentials.h"
#include "control/run/reconciler.h"
#include "control/tables/database.h"
#include "control/tables/schema.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

constexpr std::size_t kQueuedEvents = 1024;
constexpr std::size_t kWorkers = 8;
constexpr std::size_t kStoreWorkers = 4;

class ControlImpl final : public Control {
 public:
  struct Parts {
    Config config;
    FileLock lock;  // on the database: one process may have it open
    std::unique_ptr<Database> database;
    std::unique_ptr<LogStore> logs;
    std::unique_ptr<Identity> identity;
  };

  ControlImpl(ControlOptions options, Outside outside, Parts parts)
      : options_(std::move(options)),
        outside_(outside),
        parts_(std::move(parts)),
        events_(std::make_shared<EventQueue>(kQueuedEvents)),
        sessions_(*parts_.database, *parts_.logs, outside_.clock,
                  [events = events_](News news) { events->push(std::move(news)); }),
        store_workers_("control-store", kStoreWorkers),
        workers_("control", kWorkers),
        around_{options_,
                parts_.config,
                outside_,
                *parts_.database,
                *parts_.logs,
                *parts_.identity,
                sessions_,
                [this](std::function<void()> task) { workers_.post(std::move(task)); },
                [this](std::function<void()> task) { store_workers_.post(std::move(task)); }},
        reconciler_(around_, events_),
        training_jobs_(around_, reconciler_, *events_) {}

  // Polls are answered first: their callbacks belong to the caller's HTTP server.
  ~ControlImpl() override { sessions_.shut(); }

  Result<void> start() {
    // The engine outlives us: what its callback needs is shared with it.
    outside_.engine.on_exit([events = events_](const RunningInstance& instance) {
      events->push(SupervisorEnded{instance});
    });
    YARD_TRY(reconciler_.adopt());
    reconciler_.start();
    return {};
  }

  Result<json> call(std::string_view service, std::string_view operation, const json& input,
                    const Caller& caller) override {
    YARD_TRY(api::validate(service, operation, input));
    warn_of_unknown_members(service, operation, input);
    if (service == "sagemaker" || service == "trainyard") {
      return training_jobs_.call(operation, input);
    }
    if (service == "logs") {
      return call_logs(*parts_.logs, operation, input,
                       {.region = options_.region, .account = options_.account});
    }
    if (service == "cloudwatch") {
      return call_metrics(*parts_.database, outside_.clock.now(), operation, input);
    }
    if (service == "sts" && operation == "GetCallerIdentity") {
      return json{{"UserId", caller.user_id}, {"Account", options_.account}, {"Arn", caller.arn}};
    }
    if (service == "iam") {
      return call_iam(operation, input, options_.account);
    }
    return Error{.code = Code::kUnimplemented,
                 .message = fmt::format("The operation {} is not served by Trainyard.", operation),
                 .subject = "operation"};
  }

  std::optional<AccessKey> find_key(std::string_view access_key_id) override {
    return parts_.identity->find(access_key_id);
  }

  AccessKey root_key() override { return parts_.identity->root(); }

  std::string instance_token(std::string_view id) override {
    return parts_.identity->instance_token(id);
  }

  Result<void> knows(const InstanceCaller& caller) override {
    YARD_TRY(sessions_.find({.token = caller.token}));
    return {};
  }

  Result<void> hear(const InstanceCaller& caller, std::uint64_t number) override {
    return sessions_.hear(caller, number);
  }

  Result<json> assignment(const InstanceCaller& caller) override {
    return sessions_.assignment(caller);
  }

  Result<json> reports(const InstanceCaller& caller, const json& body) override {
    return sessions_.reports(caller, body);
  }

  void commands(const InstanceCaller& caller, std::int64_t after, std::chrono::milliseconds time,
                std::function<void(Result<json>)> answer) override {
    sessions_.commands(caller, after, time, std::move(answer));
  }

  Result<json> credentials(const InstanceCaller& caller) override {
    return credentials_for(caller, sessions_, *parts_.identity);
  }

  void release_polls() override { sessions_.shut(); }

 private:
  static void warn_of_unknown_members(std::string_view service, std::string_view operation,
                                      const json& input) {
    const std::vector<std::string> unknown = api::unknown_members(service, operation, input);
    if (!unknown.empty()) {
      log_warning(fmt::format("{}: ignoring unknown members {}", operation, join(unknown, ", ")));
    }
  }

  ControlOptions options_;
  Outside outside_;
  Parts parts_;
  std::shared_ptr<EventQueue> events_;
  Sessions sessions_;
  WorkerPool store_workers_;
  WorkerPool workers_;  // ends after the reconciler, with the calls in flight
  Surroundings around_;
  Reconciler reconciler_;
  TrainingJobs training_jobs_;
};

}  // namespace

Result<std::unique_ptr<Control>> Control::open(ControlOptions options, Outside outside) {
  const Path& home = options.home;
  YARD_TRY(make_directories(home, 0700));
  YARD_TRY(Config config, load_config(home / "config.yaml"));
  YARD_TRY(FileLock lock, FileLock::acquire(home / "trainyard.db.lock"));
  YARD_TRY(auto database, Database::open(home / "trainyard.db", schema_migrations()));
  YARD_TRY(auto logs, LogStore::open(home / "logs", outside.clock));
  YARD_TRY(auto identity, Identity::open(*database, outside.clock, outside.random, options.account,
                                         home / "credentials"));
  ControlImpl::Parts parts{.config = std::move(config),
                           .lock = std::move(lock),
                           .database = std::move(database),
                           .logs = std::move(logs),
                           .identity = std::move(identity)};
  auto control = std::make_unique<ControlImpl>(std::move(options), outside, std::move(parts));
  YARD_TRY(control->start());
  return std::unique_ptr<Control>(std::move(control));
}

}  // namespace trainyard::control
