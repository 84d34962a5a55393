// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "control/testing/sim/cluster.h"
#include "control/testing/sim/server.h"

namespace trainyard::control {

using nlohmann::json;
using wire::Command;
using wire::Phase;

namespace {

constexpr Duration kPatience{3000};
constexpr Duration kPollPatience{25'000};
constexpr Duration kAgain{300};

}  // namespace

SimInstance::SimInstance(SimCluster& cluster, RunningInstance id, std::string token,
                         SimProgram program)
    : cluster_(cluster),
      world_(cluster.world()),
      id_(std::move(id)),
      token_(std::move(token)),
      program_(program) {}

std::string SimInstance::name() const {
  return fmt::format("{}/{}#{} (epoch {})", id_.id.job, id_.host, id_.epoch, epoch_);
}

bool SimInstance::is_frozen() const {
  return frozen_until_ > world_.clock.steady_now();
}
bool SimInstance::is_cut() const {
  return cut_until_ > world_.clock.steady_now();
}

void SimInstance::freeze(Duration time) {
  world_.note(fmt::format("{} falls silent for {} ms", name(), time.count()));
  frozen_until_ = std::max(frozen_until_, world_.clock.steady_now() + time);
}

void SimInstance::cut(Duration time) {
  world_.note(fmt::format("{} loses its link for {} ms", name(), time.count()));
  cut_until_ = std::max(cut_until_, world_.clock.steady_now() + time);
}

void SimInstance::die() {
  world_.note(name() + " is killed");
  is_alive_ = false;
}

void SimInstance::later(Duration time, std::function<void()> what) {
  world_.timeline.after(
      time, [this, generation = generation_, what = std::move(what)] { run(generation, what); });
}

// A stopped process does later what was due.
void SimInstance::run(int generation, const std::function<void()>& what) {
  if (!is_alive_ || generation != generation_) {
    return;
  }
  if (is_frozen()) {
    const auto rest =
        std::chrono::ceil<Duration>(frozen_until_ - world_.clock.steady_now()) + Duration(1);
    world_.timeline.after(rest, [this, generation, what] { run(generation, what); });
    return;
  }
  what();
}

void SimInstance::ask(Duration patience, std::function<void(SimServer&, SimAnswer)> serve,
                      Then then) {
  world_.send(
      {.patience = patience,
       .is_cut = [this] { return is_cut(); },
       .serve = std::move(serve),
       .then =
           [this, generation = generation_, then = std::move(then)](const Result<json>& answer) {
             run(generation, [then, answer] { then(answer); });
           }});
}

InstanceCaller SimInstance::caller() const {
  return {.token = token_, .epoch = epoch_};
}

// What the server may serve, seen from outside: nothing to an instance that was replaced, and
// nothing of substance to one that speaks for an older epoch.
void SimInstance::check_standing(std::string_view call, bool is_served, bool is_of_old_epoch) {
  if (is_served && cluster_.was_replaced(*this)) {
    world_.broken(fmt::format("{} was replaced, but its {} was served", name(), call));
  }
  if (is_served && is_of_old_epoch) {
    world_.broken(fmt::format("the {} of {} was served in epoch {}", call, name(),
                              world_.epochs[id_.id.job]));
  }
}

// --- Its life ---

void SimInstance::begin() {
  ++generation_;
  epoch_ = 0;
  key_.clear();
  phase_ = Phase::kStarting;
  is_stopping_ = is_finished_ = is_posting_ = false;
  seq_ = heard_ = 0;
  unsent_.clear();
  ask(
      kPatience,
      [this](SimServer& server, const SimAnswer& answer) {
        Result<json> given = server.assignment({token_});
        check_standing("assignment", given.has_value(), false);
        answer(std::move(given));
      },
      [this](const Result<json>& given) {
        if (given) {
          return take_assignment(*given);
        }
        if (given.error().code == Code::kDenied) {
          return leave();
        }
        later(kAgain, [this] { begin(); });
      });
}

void SimInstance::take_assignment(const json& given) {
  const auto assignment = wire::assignment_from_json(given);
  if (!assignment) {
    return world_.broken("an assignment that cannot be read: " + assignment.error().message);
  }
  epoch_ = assignment->epoch;
  hosts_ = assignment->hosts.size();
  world_.note(name() + " begins");
  report({.phase = Phase::kStarting});
  beat();
  poll();
  fetch_credentials();
  prepare();
}

void SimInstance::fetch_credentials() {
  ask(
      kPatience,
      [this, by = caller()](SimServer& server, const SimAnswer& answer) {
        Result<json> given = server.credentials(by);
        check_standing("credentials", given.has_value(), by.epoch < world_.epochs[id_.id.job]);
        if (given) {
          world_.keys.push_back({.id = given->at("access_key_id").get<std::string>(),
                                 .job = id_.id.job,
                                 .epoch = by.epoch.value_or(0)});
        }
        answer(std::move(given));
      },
      [this](const Result<json>& given) {
        if (given) {
          key_ = given->at("access_key_id").get<std::string>();
        } else if (given.error().code == Code::kDenied) {
          leave();
        } else if (given.error().code != Code::kConflict) {  // then it will be told to restart
          later(kAgain, [this] { fetch_credentials(); });
        }
      });
}

void SimInstance::prepare() {
  later(program_.download / 2, [this] {
    if (is_stopping_) {
      return;
    }
    phase_ = Phase::kDownloading;
    report({.phase = phase_});
    if (program_.lacks_data) {
      report({.error = Error{.code = Code::kNotFound, .message = "channel train"}});
      return;
    }
    later(program_.download, [this] {
      if (!is_stopping_) {
        phase_ = Phase::kReady;
        report({.phase = phase_});
      }
    });
  });
}

// --- Reports ---

void SimInstance::report(wire::Report report) {
  report.seq = ++seq_;
  unsent_.push_back(std::move(report));
  if (!is_posting_) {
    post_reports();
  }
}

void SimInstance::beat() {
  if (!is_posting_) {
    post_reports();
  }
  later(wire::kBeat, [this] { beat(); });
}

void SimInstance::post_reports() {
  is_posting_ = true;
  json body = json::array();
  for (const wire::Report& report : unsent_) {
    body.push_back(wire::to_json(report));
  }
  if (body.empty()) {
    body.push_back(wire::to_json(wire::Report{}));
  }
  const std::int64_t last = unsent_.empty() ? 0 : unsent_.back().seq;
  ask(
      kPatience,
      [this, by = caller(), body = std::move(body), last](SimServer& server,
                                                          const SimAnswer& answer) {
        const bool is_old = by.epoch < world_.epochs[id_.id.job];
        Result<json> taken = server.reports(by, body);
        const bool is_dropped = is_old && taken && (*taken)["acknowledged"] == last;
        check_standing("report", taken.has_value(), is_old && !is_dropped);
        answer(std::move(taken));
      },
      [this](const Result<json>& answer) { take_acknowledgement(answer); });
}

void SimInstance::take_acknowledgement(const Result<json>& answer) {
  is_posting_ = false;
  if (!answer) {
    return answer.error().code == Code::kDenied ? leave() : void();  // else the next beat tries
  }
  const auto acknowledged = answer->at("acknowledged").get<std::int64_t>();
  while (!unsent_.empty() && unsent_.front().seq <= acknowledged) {
    unsent_.pop_front();
  }
  if (unsent_.empty() && is_finished_) {
    leave();
  }
}

// --- Commands ---

void SimInstance::poll() {
  ask(
      kPollPatience,
      [this, by = caller(), after = heard_](SimServer& server, const SimAnswer& answer) {
        server.commands(by, after, wire::kLongPoll, [this, by, answer](const Result<json>& list) {
          if (list) {
            check_commands(*list, by);
          }
          answer(list);
        });
      },
      [this](const Result<json>& list) {
        if (!list) {
          return list.error().code == Code::kDenied ? leave() : later(kAgain, [this] { poll(); });
        }
        for (const json& item : *list) {
          const auto command = wire::command_from_json(item);
          if (command && command->seq > heard_) {
            heard_ = command->seq;
            if (command->kind == Command::Kind::kRestart) {
              return begin();
            }
            take(*command);
          }
        }
        poll();
      });
}

void SimInstance::check_commands(const json& list, const InstanceCaller& by) {
  bool is_restart = true;
  for (const json& command : list) {
    is_restart = is_restart && command["kind"] == "restart";
    if (command["kind"] == "go") {
      cluster_.check_barrier(*this, hosts_);
    }
  }
  check_standing("poll", !list.empty(), by.epoch < world_.epochs[id_.id.job] && !is_restart);
}

void SimInstance::take(const Command& command) {
  switch (command.kind) {
    case Command::Kind::kGo:
      return start_program();
    case Command::Kind::kStop:
    case Command::Kind::kAbort:
      return stop_program();
    case Command::Kind::kUpload:
      return upload(command);
    case Command::Kind::kSignal:
      if (phase_ < Phase::kTraining && !is_stopping_) {
        world_.broken(name() + " hears a signal for a program that it was not told to start");
      }
      return;
    default:
      return finish();
  }
}

void SimInstance::start_program() {
  if (is_stopping_ || phase_ != Phase::kReady) {
    return;
  }
  phase_ = Phase::kTraining;
  report({.phase = phase_});
  later(world_.dice.between(program_.train / 2, program_.train), [this] {
    wire::Exit exit;
    const bool is_culprit = program_.fails && id_.host == "algo-1";
    exit.code = is_culprit ? 3 : cluster_.has_lost_peers(*this) ? 1 : 0;
    end_program(exit);
  });
}

void SimInstance::notice_lost_peer() {
  later(world_.dice.between(Duration(1), Duration(60)), [this] {
    if (phase_ == Phase::kTraining) {
      wire::Exit exit;
      exit.code = 1;
      end_program(exit);
    }
  });
}

void SimInstance::end_program(wire::Exit exit) {
  if (phase_ >= Phase::kEnded || (is_stopping_ && !exit.stopped)) {
    return;
  }
  exit.at = world_.clock.now();
  exit.has_model = phase_ == Phase::kTraining && (program_.many_models || id_.host == "algo-1");
  world_.note(fmt::format("{}'s program ends with {}{}", name(), exit.code,
                          exit.stopped ? " (stopped)" : ""));
  phase_ = Phase::kEnded;
  report({.phase = phase_, .exit = exit});
}

void SimInstance::stop_program() {
  if (std::exchange(is_stopping_, true)) {
    return;
  }
  if (!world_.is_calm && world_.dice.chance(0.05)) {
    return;  // it sleeps where no signal reaches it
  }
  later(world_.dice.between(Duration(1), Duration(5000)), [this] {
    wire::Exit exit;
    exit.stopped = true;
    end_program(exit);
  });
}

void SimInstance::upload(const Command& command) {
  std::vector<wire::ArtifactUpload> uploads;
  for (const auto& slot : {command.model, command.output}) {
    if (slot) {
      uploads.push_back(*slot);
    }
  }
  phase_ = Phase::kUploading;
  report({.phase = phase_});
  if (!world_.is_calm && world_.dice.chance(0.03)) {
    return;  // it hangs
  }
  later(world_.dice.between(Duration(10), Duration(2000)),
        [this, uploads = std::move(uploads)] { write(uploads); });
}

void SimInstance::write(const std::vector<wire::ArtifactUpload>& uploads) {
  if (world_.server == nullptr || world_.server->is_dead() || key_.empty()) {
    return later(kAgain, [this, uploads] { write(uploads); });
  }
  if (!world_.server->identity().find(key_)) {
    return report({.error = Error{.code = Code::kDenied, .message = "the keys are revoked"}});
  }
  if (epoch_ != world_.epochs[id_.id.job]) {
    world_.broken(name() + " writes with keys of an old epoch");
  }
  for (const wire::ArtifactUpload& upload : uploads) {
    const auto uri = s3::parse_uri(upload.s3_uri);
    bool is_read = false;
    const s3::ByteSource body = [&](std::span<std::byte> out) -> Result<std::size_t> {
      out[0] = std::byte{0};
      return std::exchange(is_read, true) ? std::size_t{0} : std::size_t{1};
    };
    if (!uri || !cluster_.objects().put(uri->bucket, uri->key, body, {})) {
      world_.broken("an upload to " + upload.s3_uri);
    }
  }
  finish();
}

void SimInstance::finish() {
  is_finished_ = true;
  phase_ = Phase::kFinished;
  report({.phase = phase_});
}

void SimInstance::leave() {
  world_.note(name() + " leaves");
  is_alive_ = false;
  cluster_.left(*this);
}

}  // namespace trainyard::control
