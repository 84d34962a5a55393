// SPDX-License-Identifier: Apache-2.0
#include "control/testing/sim/cluster.h"

#include <algorithm>

#include <fmt/format.h>

namespace trainyard::control {
namespace {

Error trouble() {
  return {.code = Code::kInternal, .message = "the engine has trouble"};
}

std::string text_of(const GangId& id) {
  return fmt::format("{}.{}", id.job, id.epoch);
}

}  // namespace

// --- The engine ---

Result<GangNetwork> SimCluster::prepare(const GangRequest& request) {
  world_.note("engine: prepare " + text_of(request.id));
  if (fails()) {
    return trouble();
  }
  GangNetwork network{.addresses = {}, .interface = "eth0", .server = "http://server"};
  for (int i = 0; i < request.instances; ++i) {
    network.addresses.push_back(fmt::format("10.0.0.{}", i + 1));
  }
  return network;
}

Result<void> SimCluster::start(const GangId& id, const std::vector<InstanceStart>& instances) {
  std::vector<SimInstance*> started;
  for (const InstanceStart& start : instances) {
    const bool runs = std::any_of(instances_.begin(), instances_.end(), [&](const auto& instance) {
      return instance->is_alive() && !instance->is_zombie() && instance->id().id == id &&
             instance->id().host == start.host && instance->id().epoch == start.epoch;
    });
    world_.note(fmt::format("engine: start {} of {} for epoch {}{}", start.host, text_of(id),
                            start.epoch, runs ? ": it runs" : ""));
    if (runs) {
      continue;
    }
    replace(id, start.host);
    const RunningInstance running{.id = id, .host = start.host, .epoch = start.epoch};
    instances_.push_back(
        std::make_unique<SimInstance>(*this, running, start.token, programs_[id.job]));
    started.push_back(instances_.back().get());
  }
  if (fails()) {
    for (SimInstance* instance : started) {
      instance->die();
    }
    return trouble();
  }
  for (SimInstance* instance : started) {
    world_.timeline.after(world_.dice.between(Duration(10), Duration(500)), [instance] {
      if (instance->is_alive()) {
        instance->begin();
      }
    });
  }
  return {};
}

// A silent one may only look dead, and be out of reach.
void SimCluster::replace(const GangId& id, const std::string& host) {
  for (const auto& old : instances_) {
    if (!old->is_alive() || old->is_zombie() || old->id().id != id || old->id().host != host) {
      continue;
    }
    if (old->is_silent() && world_.dice.chance(0.3)) {
      world_.note(fmt::format("{} of {} is out of reach", host, text_of(id)));
      old->become_zombie();
    } else {
      old->die();
      tell_exit(old->id());
    }
  }
}

Result<std::vector<RunningInstance>> SimCluster::list() {
  if (fails()) {
    return trouble();
  }
  std::vector<RunningInstance> running;
  for (const auto& instance : instances_) {
    if (instance->is_zombie() || (!instance->is_alive() && world_.dice.chance(0.5))) {
      continue;
    }
    running.push_back(instance->id());
    running.back().alive = instance->is_alive();
  }
  return running;
}

Result<void> SimCluster::release(const GangId& id) {
  world_.note("engine: release " + text_of(id));
  if (fails()) {
    stuck_.insert(id.job);
    return trouble();
  }
  for (const auto& instance : instances_) {
    if (instance->is_alive() && !instance->is_zombie() && instance->id().id == id) {
      instance->die();
    }
  }
  return {};
}

// To the server that is up: a later one finds who is dead when it lists them.
void SimCluster::tell_exit(const RunningInstance& id) {
  RunningInstance dead = id;
  dead.alive = false;
  world_.timeline.after(world_.dice.between(Duration(1), Duration(100)),
                        [this, dead, to = listener_] {
                          if (callback_ && to == listener_) {
                            callback_(dead);
                          }
                        });
}

// --- What happens to instances ---

SimInstance* SimCluster::any_living() {
  std::vector<SimInstance*> living;
  for (const auto& instance : instances_) {
    if (instance->is_alive() && !instance->is_zombie()) {
      living.push_back(instance.get());
    }
  }
  return living.empty() ? nullptr : living[world_.dice.below(living.size())];
}

void SimCluster::die(SimInstance& instance) {
  instance.die();
  left(instance);
}

void SimCluster::left(const SimInstance& instance) {
  if (!instance.is_zombie()) {
    tell_exit(instance.id());
  }
  for (const auto& peer : instances_) {
    const bool is_peer = peer->is_alive() && peer->id().id.job == instance.id().id.job &&
                         peer->epoch() == instance.epoch();
    if (is_peer && peer->has_been_ready() && world_.dice.chance(0.7)) {
      peer->notice_lost_peer();
    }
  }
}

bool SimCluster::has_lost_peers(const SimInstance& instance) const {
  return std::any_of(instances_.begin(), instances_.end(), [&](const auto& peer) {
    return peer->id().id == instance.id().id && peer->epoch() == instance.epoch() &&
           !peer->is_reachable();
  });
}

// --- What must hold ---

bool SimCluster::was_replaced(const SimInstance& instance) const {
  const auto newest = std::find_if(instances_.rbegin(), instances_.rend(), [&](const auto& other) {
    return other->id().id.job == instance.id().id.job && other->id().host == instance.id().host;
  });
  return newest->get() != &instance;
}

void SimCluster::check_barrier(const SimInstance& opened, std::size_t hosts) {
  std::set<std::string> ready;
  for (const auto& peer : instances_) {
    if (peer->id().id.job == opened.id().id.job && peer->epoch() == opened.epoch() &&
        peer->has_been_ready()) {
      ready.insert(peer->id().host);
    }
  }
  if (ready.size() != hosts) {
    world_.broken(fmt::format("the barrier of {} opened in epoch {} with {} of {} hosts ready",
                              opened.id().id.job, opened.epoch(), ready.size(), hosts));
  }
}

void SimCluster::check() {
  std::map<std::pair<std::string, std::string>, int> current;
  for (const auto& instance : instances_) {
    const std::string& job = instance->id().id.job;
    if (instance->is_alive() && instance->epoch() != 0 && instance->epoch() == world_.epochs[job] &&
        ++current[{job, instance->id().host}] > 1) {
      world_.broken(fmt::format("{} of {} runs twice in epoch {}", instance->id().host, job,
                                instance->epoch()));
    }
  }
}

std::vector<std::string> SimCluster::leftovers() const {
  std::vector<std::string> names;
  for (const auto& instance : instances_) {
    const bool is_lost = instance->is_zombie() && instance->is_silent();
    if (instance->is_alive() && !is_lost) {
      names.push_back(instance->name());
    }
  }
  return names;
}

bool SimCluster::lives(const std::string& job, const std::string& host) const {
  const auto newest = std::find_if(instances_.rbegin(), instances_.rend(), [&](const auto& other) {
    return other->id().id.job == job && other->id().host == host;
  });
  return newest != instances_.rend() && (*newest)->is_alive() && !(*newest)->is_zombie();
}

bool SimCluster::runs_anything_of(const std::string& job) const {
  return std::any_of(instances_.begin(), instances_.end(), [&](const auto& instance) {
    return instance->is_alive() && !instance->is_zombie() && instance->id().id.job == job;
  });
}

}  // namespace trainyard::control
