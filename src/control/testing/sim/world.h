// SPDX-License-Identifier: Apache-2.0
// Virtual time, chance and the network of the simulation. Everything that happens is an entry of
// one timeline; what the seed decides comes from one die, so that a seed is a whole history.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/random.h"
#include "control/testing/job_values.h"
#include "testing/fake_clock.h"

namespace trainyard::control {

class SimServer;

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  // The distributions of the standard library differ between its makers.
  std::uint64_t below(std::uint64_t count) { return engine_() % count; }
  bool chance(double probability) {
    return static_cast<double>(below(1'000'000)) < probability * 1e6;
  }
  Duration between(Duration least, Duration most) {
    return least + Duration(below(static_cast<std::uint64_t>((most - least).count()) + 1));
  }

 private:
  std::mt19937_64 engine_;
};

// What happens at the same time happens in the order in which it was planned.
class Timeline {
 public:
  explicit Timeline(testing::FakeClock& clock) : clock_(clock) {}

  void after(Duration time, std::function<void()> what) {
    entries_.emplace(std::pair(clock_.steady_now() + time, ++planned_), std::move(what));
  }
  // Moves the clock to the next entry and lets it happen. False when there is none.
  bool step() {
    if (entries_.empty()) {
      return false;
    }
    auto entry = entries_.extract(entries_.begin());
    clock_.advance(std::chrono::duration_cast<Duration>(entry.key().first - clock_.steady_now()));
    entry.mapped()();
    return true;
  }

 private:
  testing::FakeClock& clock_;
  std::int64_t planned_ = 0;
  std::map<std::pair<SteadyTime, std::int64_t>, std::function<void()>> entries_;
};

// Of the network between the instances and the server.
struct Weather {
  double lost = 0;
  double doubled = 0;
  Duration slowest{20};
};

using SimAnswer = std::function<void(Result<nlohmann::json>)>;

// Keys that an attempt was given.
struct SimKeys {
  std::string id;
  std::string job;
  int epoch = 0;
};

struct SimWorld {
  explicit SimWorld(std::uint64_t seed) : dice(seed), random(seed) {}

  // One call over the network: `serve` runs at the server perhaps not at all, perhaps twice, and
  // `then` gets its answer, or an error when patience is over.
  struct Call {
    Duration patience;
    std::function<bool()> is_cut;  // the caller's link, at this moment
    std::function<void(SimServer&, SimAnswer)> serve;
    SimAnswer then;
  };
  void send(const Call& call);

  void note(std::string_view text);
  // An invariant does not hold.
  void broken(std::string text);

  Dice dice;
  SeededRandom random;
  testing::FakeClock clock{kTestTime};
  Timeline timeline{clock};
  Weather weather = {};
  SimServer* server = nullptr;             // while it is up
  std::map<std::string, int> epochs = {};  // of each job, as stored
  std::vector<SimKeys> keys = {};          // all that were ever given
  bool is_calm = false;                    // nothing ever goes wrong in this world
  bool is_traced = false;
  std::vector<std::string> violations = {};
};

}  // namespace trainyard::control
