// SPDX-License-Identifier: Apache-2.0
// decide(), the reconciler, the sessions and the tables under virtual time, with everything going
// wrong that can: messages are lost, doubled, late and out of order, instances die and fall silent
// and wake up, the engine fails, the server dies at any transaction and comes back. What holds
// always is checked after every event (testing/sim/oracle.h, cluster.cc). A seed is a history: one
// that fails is printed as YARD_SEED=n, and that variable replays it with all its events.
// YARD_SEED_BASE=n tries other seeds: those from n on.
#include <cstdlib>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/log.h"
#include "base/text.h"
#include "control/testing/sim/oracle.h"
#include "s3/directory/directory_store.h"

namespace trainyard::control {
namespace {

using nlohmann::json;
using std::chrono::seconds;

constexpr std::uint64_t kSeeds = 500;
constexpr std::uint64_t kSeedsAtOnce = 100;
// Trouble ends after this; then every job must end by itself, soon.
constexpr Duration kTrouble = seconds(60);
constexpr Duration kPeace = seconds(3600);
constexpr Duration kAftermath = seconds(150);  // longer than any silence that ends

// Memory instead of a disk, where there is some to be had as files.
TempDir fast_directory() {
  auto directory = TempDir::make("yard-sim-", "/dev/shm");
  return directory ? std::move(*directory) : std::move(*TempDir::make("yard-sim-"));
}

// What outlives all seeds.
struct Ground {
  TempDir directory = fast_directory();
  SystemRandom random;
  testing::FakeClock clock;
  std::unique_ptr<s3::DirectoryStore> objects =
      std::move(*s3::DirectoryStore::open(directory.path() / "objects", clock, random));
  Ground() { EXPECT_TRUE(objects->create_bucket("bucket")); }
};

class History {
 public:
  History(Ground& ground, std::uint64_t seed)
      : seed_(seed),
        world_(seed),
        cluster_(world_, *ground.objects),
        oracle_(world_, cluster_),
        home_(fast_directory()),
        options_{.home = home_.path()},
        outside_{.clock = world_.clock,
                 .random = world_.random,
                 .objects = *ground.objects,
                 .engine = cluster_} {
    config_.machine.instances = 2 + static_cast<int>(dice().below(3));
    config_.limits = {.stop_grace = seconds(10), .upload = seconds(30)};
    config_.images = {{"pytorch", "torch"}};
    config_.environments = {{"torch", "/"}};
  }

  // What was violated; empty: nothing.
  std::vector<std::string> run(bool is_traced) {
    world_.is_traced = is_traced;
    world_.is_calm = dice().chance(0.1);
    open_server();
    plan_jobs();
    if (!world_.is_calm) {
      change_weather();
      plan_trouble();
      world_.timeline.after(kTrouble, [this] { make_peace(); });
    }
    if (dice().chance(0.5)) {
      plan_pause();
    }
    const SteadyTime deadline = world_.clock.steady_now() + kTrouble + kPeace;
    while (world_.violations.empty() && !is_over() && world_.timeline.step()) {
      after_event();
      if (world_.clock.steady_now() > deadline) {
        world_.broken("a job does not end");
      }
    }
    if (world_.violations.empty()) {
      world_.is_calm ? judge_calm() : judge_aftermath();
    }
    server_.reset();
    return world_.violations;
  }

 private:
  struct Plan {
    json request;
    SimProgram program;
    bool is_created = false;
    std::future<Result<void>> stop = {};
  };

  Dice& dice() { return world_.dice; }
  bool is_over() const { return is_peace() && created_ == plans_.size() && oracle_.all_ended(); }
  bool is_peace() const { return world_.is_calm || is_peace_; }

  void after_event() {
    cluster_.check();
    if (server_ == nullptr) {
      return;
    }
    if (server_->is_dead()) {
      return bury_server();
    }
    for (const Stage stage : oracle_.look(*server_)) {
      // The stages that pass quickly are where a crash has most to break.
      if (!is_peace() && stage != Stage::kRunning && dice().chance(0.07)) {
        server_->die_after(static_cast<int>(dice().below(3)));
      }
    }
    for (auto& [name, plan] : plans_) {
      if (plan.stop.valid() &&
          plan.stop.wait_for(std::chrono::seconds(0)) == std::future_status::ready &&
          plan.stop.get()) {
        oracle_.stop_acknowledged(name);
      }
    }
  }

  // --- The server ---

  void open_server() {
    world_.note("the server starts");
    auto server = SimServer::open(
        {.world = world_, .options = options_, .config = config_, .outside = outside_});
    if (!server) {
      world_.note("the server does not start: " + server.error().message);
      world_.timeline.after(seconds(1), [this] { open_server(); });
      return;
    }
    server_ = std::move(*server);
    world_.server = server_.get();
    oracle_.look(*server_);
  }

  void bury_server() {
    world_.note("the server is dead");
    server_->finish_some_tasks();
    for (auto& [name, plan] : plans_) {
      plan.stop = {};  // its client has seen the connection break
    }
    server_.reset();
    const Duration pause = dice().chance(0.1) ? seconds(40) : seconds(3);
    world_.timeline.after(dice().between(Duration(100), pause), [this] { open_server(); });
  }

  // --- Jobs ---

  void plan_jobs() {
    const auto count = 1 + dice().below(3);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::string name = fmt::format("s{}-{}", seed_, i);
      Plan& plan = plans_[name];
      plan.request = request_of(name);
      plan.program = {.download = dice().between(Duration(200), seconds(3)),
                      .train = dice().between(seconds(1), seconds(20)),
                      .fails = dice().chance(0.15),
                      .lacks_data = dice().chance(0.05),
                      .many_models = dice().chance(0.3)};
      cluster_.set_program(name, plan.program);
      world_.timeline.after(dice().between(Duration(0), seconds(20)),
                            [this, name] { create(name); });
      if (!world_.is_calm && dice().chance(0.2)) {
        world_.timeline.after(dice().between(seconds(1), seconds(50)),
                              [this, name] { stop(name); });
      }
      for (std::uint64_t signals = dice().below(4); signals > 0; --signals) {
        world_.timeline.after(dice().between(seconds(1), seconds(40)),
                              [this, name] { signal(name); });
      }
    }
  }

  json request_of(const std::string& name) {
    const auto instances =
        1 + static_cast<int>(dice().below(static_cast<std::uint64_t>(config_.machine.instances)));
    json request = job_request(instances);
    request["TrainingJobName"] = name;
    if (dice().chance(0.3)) {
      request["RetryStrategy"] = {{"MaximumRetryAttempts", 1 + dice().below(4)}};
    }
    if (!world_.is_calm && dice().chance(0.2)) {
      request["StoppingCondition"]["MaxRuntimeInSeconds"] = 5 + dice().below(30);
    }
    if (!world_.is_calm && dice().chance(0.1)) {
      request["StoppingCondition"]["MaxPendingTimeInSeconds"] = 5 + dice().below(30);
    }
    return request;
  }

  // A client that asks until it has an answer.
  void create(const std::string& name) {
    Plan& plan = plans_.at(name);
    if (server_ != nullptr && !server_->is_dead()) {
      const auto created = server_->create(plan.request);
      if (created || created.error().code == Code::kAlreadyExists) {
        world_.note("created: " + name);
        oracle_.created(name);
        ++created_;
        return;
      }
    }
    world_.timeline.after(seconds(1), [this, name] { create(name); });
  }

  void stop(const std::string& name) {
    if (server_ != nullptr && !server_->is_dead()) {
      world_.note("a client stops " + name);
      plans_.at(name).stop = server_->stop(name);
    }
  }

  // Changes nothing of the job's life.
  void signal(const std::string& name) {
    if (server_ != nullptr && !server_->is_dead()) {
      world_.note("a client signals " + name);
      server_->signal(name, dice().chance(0.5) ? wire::UserSignal::kUsr1 : wire::UserSignal::kUsr2);
    }
  }

  // --- Trouble ---

  void plan_trouble() {
    world_.timeline.after(dice().between(Duration(100), seconds(8)), [this] {
      if (!is_peace_) {
        cause_trouble();
        plan_trouble();
      }
    });
  }

  // Also in a calm world: a pause of the server is no fault of any instance.
  void plan_pause() {
    world_.timeline.after(dice().between(seconds(1), seconds(40)), [this] {
      if (server_ != nullptr && !server_->is_dead()) {
        const Duration time = dice().between(seconds(1), seconds(20));
        world_.note(fmt::format("the server pauses for {} ms", time.count()));
        server_->pause(time);
      }
    });
  }

  void cause_trouble() {
    SimInstance* victim = cluster_.any_living();
    switch (dice().below(8)) {
      case 0:
      case 1:
        return victim != nullptr ? cluster_.die(*victim) : void();
      case 2:
        return victim != nullptr ? victim->freeze(some_silence()) : void();
      case 3:
        return victim != nullptr ? victim->cut(dice().between(seconds(1), seconds(40))) : void();
      case 4:
      case 5:
        return server_ != nullptr ? server_->die_after(static_cast<int>(dice().below(12))) : void();
      case 6:
        return change_weather();
      default:
        return cluster_.fail_calls(dice().chance(0.5) ? 0 : dice().chance(0.3) ? 0.9 : 0.3);
    }
  }

  // Some never wake up.
  Duration some_silence() {
    return dice().chance(0.2) ? Duration(std::chrono::hours(24))
                              : dice().between(seconds(1), seconds(90));
  }

  void change_weather() {
    world_.weather = dice().chance(0.6)
                         ? Weather{.slowest = Duration(20)}
                         : Weather{.lost = 0.2, .doubled = 0.2, .slowest = seconds(4)};
  }

  void make_peace() {
    world_.note("peace");
    is_peace_ = true;
    world_.weather = {};
    cluster_.fail_calls(0);
    if (server_ != nullptr) {
      server_->die_after(-1);
    }
  }

  // After one more restart nothing is left of any job: what could not be given back is found, and
  // whoever wakes up late is sent away.
  void judge_aftermath() {
    if (server_ != nullptr) {
      bury_server();
    }
    const SteadyTime end = world_.clock.steady_now() + kAftermath;
    while (world_.violations.empty() && world_.clock.steady_now() < end && world_.timeline.step()) {
      after_event();
    }
    for (const std::string& name : cluster_.leftovers()) {
      world_.broken(name + " runs when all jobs have ended");
    }
  }

  // Where nothing goes wrong, nothing is retried and every program decides its job's end.
  void judge_calm() {
    for (const auto& [name, job] : oracle_.jobs()) {
      const SimProgram& program = plans_.at(name).program;
      const bool is_failed = program.fails || program.lacks_data;
      if (job.attempts.size() != 1 || job.epoch != 1 ||
          job.secondary != (is_failed ? Secondary::kFailed : Secondary::kCompleted)) {
        world_.broken(fmt::format("job {} ended {} after {} attempts, without any cause", name,
                                  name_of(job.secondary), job.attempts.size()));
      }
    }
  }

  std::uint64_t seed_;
  SimWorld world_;
  SimCluster cluster_;
  SimOracle oracle_;
  TempDir home_;
  ControlOptions options_;
  Config config_;
  Outside outside_;
  std::unique_ptr<SimServer> server_;
  std::map<std::string, Plan> plans_;
  std::size_t created_ = 0;
  bool is_peace_ = false;
};

std::optional<std::uint64_t> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? std::nullopt : std::optional(std::strtoull(text, nullptr, 10));
}

class Simulation : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  static void SetUpTestSuite() {
    // What goes wrong here would fill the terminal.
    const bool is_replay = number_in("YARD_SEED").has_value();
    EXPECT_TRUE(
        start_log(is_replay ? LogLevel::kDebug : LogLevel::kError, is_replay ? "" : "/dev/null"));
    ground() = std::make_unique<Ground>();
  }
  static void TearDownTestSuite() { ground().reset(); }

  static void expect_to_hold(std::uint64_t seed, bool is_traced) {
    const auto violations = History(*ground(), seed).run(is_traced);
    EXPECT_TRUE(violations.empty()) << "YARD_SEED=" << seed << ": " << join(violations, "\n  ");
  }

  static std::unique_ptr<Ground>& ground() {
    static std::unique_ptr<Ground> shared;
    return shared;
  }
};

TEST_P(Simulation, KeepsItsPromises) {
  if (const auto one = number_in("YARD_SEED")) {
    if (GetParam() == 0) {
      expect_to_hold(*one, /*is_traced=*/true);
    }
    return;
  }
  const std::uint64_t first = number_in("YARD_SEED_BASE").value_or(0) + GetParam();
  for (std::uint64_t seed = first; seed < first + kSeedsAtOnce; ++seed) {
    expect_to_hold(seed, /*is_traced=*/false);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Simulation,
                         ::testing::Range(std::uint64_t{0}, kSeeds, kSeedsAtOnce));

}  // namespace
}  // namespace trainyard::control
