// SPDX-License-Identifier: Apache-2.0
// A Control on a temporary home, with a real object store and a fake engine, and the test speaking
// for clients and for instances. Control may be closed and opened again: the engine and the store
// stay, as they do when a server restarts.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "control/control.h"
#include "control/tables/job_table.h"
#include "control/tables/schema.h"
#include "control/testing/fake_engine.h"
#include "control/testing/job_values.h"
#include "s3/directory/directory_store.h"
#include "testing/fake_clock.h"

namespace trainyard::control {

// Asks every millisecond, for at most five seconds.
inline bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

class Harness {
 public:
  explicit Harness(int capacity = 4) {
    const Path environment = home_.path() / "env";
    EXPECT_TRUE(make_directories(environment));
    EXPECT_TRUE(write_file(home_.path() / "config.yaml",
                           "capacity: {instances: " + std::to_string(capacity) +
                               ", gpus: []}\nenvironments: {torch: " + environment.string() +
                               "}\n"));
    objects_ = std::move(*s3::DirectoryStore::open(home_.path() / "objects", clock_, random_));
    EXPECT_TRUE(objects_->create_bucket("bucket"));
    put("data/a.txt", "hello");
    open();
  }

  Result<std::unique_ptr<Control>> try_open() {
    return Control::open(
        {.home = home_.path()},
        {.clock = clock_, .random = random_, .objects = *objects_, .engine = engine_});
  }
  void open() {
    auto control = try_open();
    ASSERT_TRUE(control) << control.error().message;
    control_ = std::move(*control);
  }
  void close() { control_.reset(); }
  // While it is closed: as if the last one had died at another moment.
  void edit_job(const std::string& name, const std::function<void(Job&)>& edit) {
    const auto database =
        std::move(*Database::open(home_.path() / "trainyard.db", schema_migrations()));
    EXPECT_TRUE(database->write([&](Connection& connection) -> Result<void> {
      YARD_TRY(auto job, find_job(connection, name));
      if (!job) {
        return Error{.code = Code::kNotFound, .message = name};
      }
      edit(*job);
      return update_job(connection, *job);
    }));
  }

  Control& control() { return *control_; }
  FakeEngine& engine() { return engine_; }
  testing::FakeClock& clock() { return clock_; }
  s3::ObjectStore& objects() { return *objects_; }

  void put(const std::string& key, const std::string& content) {
    std::size_t at = 0;
    const s3::ByteSource body = [&](std::span<std::byte> out) -> Result<std::size_t> {
      const std::size_t count = std::min(out.size(), content.size() - at);
      std::memcpy(out.data(), content.data() + at, count);
      at += count;
      return count;
    };
    EXPECT_TRUE(objects_->put("bucket", key, body, {}));
  }
  std::string get(const std::string& key) {
    auto reader = objects_->get("bucket", key, std::nullopt);
    std::string content;
    std::vector<std::byte> buffer(4096);
    while (reader) {
      const auto count = (*reader)->read(buffer);
      if (!count || *count == 0) {
        break;
      }
      content.append(reinterpret_cast<const char*>(buffer.data()), *count);
    }
    return content;
  }

  Result<nlohmann::json> call(std::string_view operation, const nlohmann::json& input) {
    return control_->call("sagemaker", operation, input, {});
  }
  Result<nlohmann::json> create(const std::string& name, int instances = 1,
                                nlohmann::json request = {}) {
    if (request.is_null()) {
      request = job_request(instances);
    }
    request["TrainingJobName"] = name;
    return call("CreateTrainingJob", request);
  }
  nlohmann::json describe(const std::string& name) {
    auto job = call("DescribeTrainingJob", {{"TrainingJobName", name}});
    return job ? *job : nlohmann::json{{"TrainingJobStatus", job.error().message}};
  }
  std::string secondary(const std::string& name) {
    return describe(name).value("SecondaryStatus", "");
  }
  std::string message(const std::string& name) {
    return describe(name)["SecondaryStatusTransitions"].back()["StatusMessage"].get<std::string>();
  }
  bool reaches(const std::string& name, const std::string& status) {
    return eventually([&] { return secondary(name) == status; });
  }
  // All its instances die, as often as it takes.
  bool fails_by_losses(const std::string& name, int instances = 1) {
    return eventually([&] {
      for (int i = 0; i < instances; ++i) {
        engine_.kill(name, host_name(i));
      }
      clock_.advance(std::chrono::milliseconds(20));  // repairs wait
      return secondary(name) == "Failed";
    });
  }
  std::size_t attempts(const std::string& name) { return describe(name)["Attempts"].size(); }

 private:
  TempDir home_ = *TempDir::make();
  testing::FakeClock clock_{kTestTime};
  SystemRandom random_;
  FakeEngine engine_;
  std::unique_ptr<s3::DirectoryStore> objects_;
  std::unique_ptr<Control> control_;
};

// Speaks for one started instance.
class Speaker {
 public:
  // Of an instance that replaces the one with the token `before`.
  Speaker(Harness& harness, const std::string& job, const std::string& host,
          const std::string& before = "")
      : harness_(harness) {
    const bool is_started = eventually([&] {
      const std::string token = harness.engine().token(job, host);
      return !token.empty() && token != before;
    });
    EXPECT_TRUE(is_started) << host << " of " << job << " was not started";
    caller_.token = harness.engine().token(job, host);
  }

  const std::string& token() const { return caller_.token; }
  const InstanceCaller& caller() const { return caller_; }

  // As after kRestart. Without it the epoch is not named.
  void begin_epoch(int epoch) {
    caller_.epoch = epoch;
    seq_ = heard_ = 0;
  }

  Result<nlohmann::json> report(wire::Report report) {
    report.seq = ++seq_;
    return harness_.control().reports(caller_, nlohmann::json::array({wire::to_json(report)}));
  }
  Result<nlohmann::json> say(wire::Phase phase) { return report({.phase = phase}); }
  // Now, unless the exit says when.
  Result<nlohmann::json> end(wire::Exit exit) {
    if (exit.at == WallTime{}) {
      exit.at = harness_.clock().now();
    }
    return report({.phase = wire::Phase::kEnded, .exit = std::move(exit)});
  }
  Result<nlohmann::json> beat() {
    return harness_.control().reports(caller_,
                                      nlohmann::json::array({wire::to_json(wire::Report{})}));
  }

  // The next command's kind, waiting for it by long poll.
  nlohmann::json next_command() {
    auto answer = std::make_shared<std::promise<Result<nlohmann::json>>>();
    auto future = answer->get_future();
    harness_.control().commands(
        caller_, heard_, std::chrono::seconds(20),
        [answer](Result<nlohmann::json> list) { answer->set_value(std::move(list)); });
    if (future.wait_for(std::chrono::seconds(5)) != std::future_status::ready) {
      return {{"kind", "nothing came"}};
    }
    const auto list = future.get();
    if (!list || list->empty()) {
      return {{"kind", list ? "no command" : list.error().message}};
    }
    const nlohmann::json first = list->front();
    heard_ = first.at("seq").get<std::int64_t>();
    return first;
  }

 private:
  Harness& harness_;
  InstanceCaller caller_;
  std::int64_t seq_ = 0;
  std::int64_t heard_ = 0;
};

// As that of a program that was told to stop.
inline wire::Exit stopped_exit() {
  wire::Exit exit;
  exit.signal = 15;
  exit.stopped = true;
  return exit;
}

// All instances of a job prepare, hear that they may go, and train.
inline void train(std::initializer_list<Speaker*> speakers) {
  for (const wire::Phase phase : {wire::Phase::kDownloading, wire::Phase::kReady}) {
    for (Speaker* speaker : speakers) {
      ASSERT_TRUE(speaker->say(phase));
    }
  }
  for (Speaker* speaker : speakers) {
    EXPECT_EQ(speaker->next_command()["kind"], "go");
    ASSERT_TRUE(speaker->say(wire::Phase::kTraining));
  }
}

}  // namespace trainyard::control
