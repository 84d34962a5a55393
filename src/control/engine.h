// SPDX-License-Identifier: Apache-2.0
// How instances come to life, as control sees it. The instances of a job are a gang: prepare()
// gives it addresses, start() starts its instances, all or none, and later replaces those that were
// lost; list() finds what runs, so that a restarted server adopts it; release() ends whatever is
// left and gives everything back.
// Implementations: engine/local.h, later Slurm, and a fake for tests. Engines decide nothing.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace trainyard::control {

struct GangId {
  std::string job;
  int epoch = 1;  // of the attempt that it was prepared for; later attempts keep the gang

  auto operator<=>(const GangId&) const = default;
};

struct GangRequest {
  GangId id;
  int instances = 1;
  bool isolated = false;  // EnableNetworkIsolation: no way out but to peers and the server
};

// What prepare() made: addresses[i] is that of algo-(i+1).
struct GangNetwork {
  std::vector<std::string> addresses;
  std::string interface;  // "eth0"
  std::string server;     // base URL of this server as the instances reach it
};

struct InstanceStart {
  std::string host;   // "algo-1"
  std::string token;  // for the instance protocol; secret
  int epoch = 1;      // of the attempt that it is started for
};

struct RunningInstance {
  GangId id;
  std::string host;
  bool alive = true;
  int epoch = 1;  // as it was started
};

// Subject of the kNotFound of a start() for a gang that the engine does not know.
inline constexpr std::string_view kGangSubject = "gang";

class Engine {
 public:
  virtual ~Engine() = default;
  virtual Result<GangNetwork> prepare(const GangRequest& request) = 0;
  // Idempotent by (job, epoch, host): what runs of that epoch is left alone, an older incarnation
  // of a host is killed whole and replaced, hosts that are not named go on. On an error none of the
  // named hosts runs that this call would have started. kNotFound with subject kGangSubject: the
  // gang was not prepared, or what was known of it is gone, as after a restore of the home.
  virtual Result<void> start(const GangId& id, const std::vector<InstanceStart>& instances) = 0;
  virtual Result<std::vector<RunningInstance>> list() = 0;
  // Kills what still runs, undoes the network, removes scratch. Idempotent.
  virtual Result<void> release(const GangId& id) = 0;
  // Called from a thread of the engine's when an instance's supervisor has ended, however it ended.
  // Set once, before the first start().
  virtual void on_exit(std::function<void(const RunningInstance&)> callback) = 0;
};

}  // namespace trainyard::control
