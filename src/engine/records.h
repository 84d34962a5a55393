// SPDX-License-Identifier: Apache-2.0
// What the local engine remembers on disk, so that a restarted server finds its gangs again:
//
//   <run>/<job>/<epoch>/                 a gang, by the attempt that it was prepared for
//     gang.json                          the gang and its network; first to come, last to go
//     <host>.json                        an instance: the intent to start it, then its process
//     <host>/                            its scratch: token, supervisor.log, its own files
//     meeting/                           what the gang's instances on this machine share
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "control/engine.h"
#include "sandbox/network_plan.h"
#include "sandbox/process.h"

namespace trainyard::engine {

struct GangRecord {
  control::GangId id;
  sandbox::NetworkRequest network;
  std::string boot;        // sandbox::boot_id() when it was made
  std::string server_url;  // empty until the network and the gateway's listener stand

  bool operator==(const GangRecord&) const = default;
};

struct InstanceRecord {
  std::string host;
  sandbox::ProcessId process;  // pid 0: about to be started, or ended by us
  int epoch = 1;               // the attempt that it was started for

  bool operator==(const InstanceRecord&) const = default;
};

// Job and host names become directories: letters, digits and hyphens only, 1 to 63 of them.
Result<void> check_name(std::string_view name);

class Records {
 public:
  explicit Records(Path run_directory) : run_directory_(std::move(run_directory)) {}

  Path gang_directory(const control::GangId& id) const;
  Path scratch(const control::GangId& id, const std::string& host) const;
  Path meeting(const control::GangId& id) const;

  // Survives power loss, so that the scratch that it stands for is cleared away afterwards.
  Result<void> write(const GangRecord& gang) const;
  // Survives the server's death. Power loss ends the process that it tells of, too.
  Result<void> write(const control::GangId& id, const InstanceRecord& instance) const;

  // All gangs of the run directory, when none is being made. What cannot be read is logged and
  // passed over: one bad file must not keep a server from starting. What a crash left of a gang
  // that has no record yet, or none any more, is removed.
  std::vector<GangRecord> gangs() const;
  std::vector<InstanceRecord> instances(const control::GangId& id) const;

  // Everything of the gang, gang.json last, and the job's directory with its last gang.
  Result<void> remove_gang(const control::GangId& id) const;

 private:
  Path run_directory_;
};

}  // namespace trainyard::engine
