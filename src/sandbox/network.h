// SPDX-License-Identifier: Apache-2.0
// Makes and unmakes the networks that network_plan.h decides, on this machine, as root. It runs the
// tools `ip` and `nft`, a few processes for a whole gang. Everything is named so that another
// process can take it away later, and whatever the machine had before (forwarding, unless
// somebody else has come to need it; no table of ours) comes back with the last gang. It knows no
// jobs.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "sandbox/network_plan.h"

namespace trainyard::sandbox {

struct NetworkOptions {
  // Where the /24s of gangs are taken from, in this order.
  std::vector<std::string> pools = {"10.77.0.0/16", "172.29.0.0/16"};
  // The machine's lock and what is to be restored. It must not outlive a restart of the machine.
  Path state_directory = "/run/trainyard";
  std::chrono::milliseconds deadline = std::chrono::seconds(10);  // for the lock, and for each tool
};

// One change of the machine's network. While it lives it holds a lock that all servers of the
// machine share, so that two of them never choose the same subnet: keep it short.
class NetworkChange {
 public:
  // kDenied without CAP_NET_ADMIN and CAP_SYS_ADMIN; kNotFound, naming the package, without a tool.
  static Result<NetworkChange> begin(const NetworkOptions& options);

  // A plan on a subnet that no address and no route of this machine touches. `tag`: six hex digits;
  // kAlreadyExists when a gang of this machine has it.
  Result<NetworkPlan> choose(const std::string& tag, int instances, bool isolated) const;
  // Makes it all; on an error it has undone what it did.
  Result<void> apply(const NetworkPlan& plan) const;
  // Makes these instances' links and namespaces anew, under the same names and addresses; the
  // others notice nothing. What still lives in an old namespace has no link any more.
  Result<void> renew(const NetworkPlan& plan, const std::vector<InstanceLink>& links) const;
  // Removes it all, and checks that it is gone. What is gone already is no error. Processes in the
  // namespaces must be dead before: they would keep them alive.
  Result<void> undo(const NetworkPlan& plan) const;

 private:
  NetworkChange(NetworkOptions options, FileLock lock)
      : options_(std::move(options)), lock_(std::move(lock)) {}

  Result<void> run_tool(const Path& tool, std::vector<std::string> arguments,
                        const std::string& script, int network_namespace = -1) const;
  Result<void> make_all(const NetworkPlan& plan) const;
  Result<void> configure(const std::vector<InstanceLink>& links) const;
  Result<void> enable_forwarding() const;
  Result<void> restore_forwarding() const;
  Path forwarding_file() const { return options_.state_directory / "ip_forward"; }

  NetworkOptions options_;
  FileLock lock_;
  Path ip_;
  Path nft_;
};

// Where `ip netns` keeps the namespace of this name.
std::string namespace_path(const std::string& name);
Result<Fd> open_namespace(const std::string& name);
// Runs `body` on a thread of its own inside the network namespace.
Result<void> run_in_namespace(int network_namespace, const std::function<Result<void>()>& body);

}  // namespace trainyard::sandbox
