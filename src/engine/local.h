// SPDX-License-Identifier: Apache-2.0
// The engine of one machine: every instance is a process (`trainyard instance`). As root each has a
// network namespace of its own, joined to its peers and to the server by a bridge; an ordinary
// user's instances share the machine's network, with an address of the loopback each and a range of
// ports for each gang (sandbox/loopback_plan.h), and are enclosed by user namespaces. It keeps what
// it does on disk (records.h), so that a restarted server finds and watches what still runs.
// Instances outlive the engine's object; release() is what ends them, or start() when it replaces
// one for a later attempt. A process that SIGKILL does not end (it hangs in the kernel) holds
// nothing up: it is logged, and left without network and files.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/result.h"
#include "base/subprocess.h"
#include "control/engine.h"
#include "engine/exit_watch.h"
#include "engine/instance_groups.h"
#include "engine/records.h"
#include "sandbox/loopback.h"
#include "sandbox/network.h"

namespace trainyard::engine {

enum class NetworkKind { kNamespaces, kLoopback };

struct LocalEngineOptions {
  Path run_directory;  // "<home>/run"; one engine at a time uses it
  // The program started as `<program> instance --server URL --scratch DIR --meeting SHARED`; empty:
  // this executable. Its environment is ours with `environment` on top; its output goes to
  // DIR/supervisor.log, and DIR/token (mode 0600) holds its token. SHARED is a directory of the
  // gang's instances together.
  Path program = {};
  std::map<std::string, std::string> environment = {};
  // Makes the server listen on this address, on any port when it is 0, and gives the base URL
  // ("http://10.77.0.254:41234"). Called again with the same port by a restarted server.
  std::function<Result<std::string>(const std::string& address, std::uint16_t port)> open_gateway =
      {};
  // May be asked for an address that is not open.
  std::function<void(const std::string& address)> close_gateway = {};
  // Of new gangs; those that are there stay what they are. kLoopback needs no root: the program is
  // asked by `<program> instance-probe` whether user namespaces can be made, and its words are the
  // error where they cannot.
  NetworkKind network_kind = NetworkKind::kNamespaces;
  sandbox::NetworkOptions network = {};
  sandbox::CgroupLimits limits = {};  // of each instance's container
  std::chrono::milliseconds kill_deadline = std::chrono::seconds(5);
};

// Thread-safe, but the calls for one gang come one after the other. Callbacks of the options are
// called from the caller's thread, without a lock.
class LocalEngine final : public control::Engine {
 public:
  // Reads the records; touches no gang. `random` outlives the engine.
  static Result<std::unique_ptr<LocalEngine>> make(LocalEngineOptions options, Random& random);
  ~LocalEngine() override = default;  // stops watching; instances go on

  // Takes over what an engine before us left: opens the gateways of the gangs, watches their
  // instances, releases gangs of which no start was ever asked: whatever remains is in list(). Call
  // it once, after on_exit() and before control starts; the other calls do it when that was
  // forgotten.
  Result<void> adopt();

  // Asked again for the same gang, it gives the same answer; kAlreadyExists when the gang was
  // prepared differently; kDenied, naming the setting, where the kernel forbids an ordinary user
  // what an instance needs.
  Result<control::GangNetwork> prepare(const control::GangRequest& request) override;
  // A host whose instance has ended, or belongs to an older attempt, gets a new one: nothing of the
  // old one lives on, and its network namespace, its scratch and its token are new. kConflict when
  // a later attempt's instance runs. After a restart of the machine the gang's network is made
  // anew.
  Result<void> start(const control::GangId& id,
                     const std::vector<control::InstanceStart>& instances) override;
  Result<std::vector<control::RunningInstance>> list() override;
  Result<void> release(const control::GangId& id) override;
  // Not called for instances that release() or a failed start() ended, nor for those that had ended
  // before adopt(): list() tells of them.
  void on_exit(std::function<void(const control::RunningInstance&)> callback) override;

 private:
  struct Instance {
    sandbox::ProcessId process;  // pid 0: it never came to be, or we ended it
    Fd pidfd;                    // not open: it had ended before we could look
    int epoch = 1;
  };
  using Instances = std::map<std::string, Instance>;  // by host
  struct Gang {
    GangRecord record;
    sandbox::NetworkPlan plan;
    bool gateway_is_open = false;
    Instances instances = {};
  };
  // What start() works on: the gang as it is, without its instances, and who is to be started.
  struct Launch {
    GangRecord record;
    sandbox::NetworkPlan plan;
    bool gateway_is_open = false;
    std::vector<control::InstanceStart> starts;
    std::vector<std::string> replaced;  // those of the starts that had an instance
  };

  static std::string name_of(const control::GangId& id);
  static bool is_alive(const Fd& pidfd);
  static Result<sandbox::InstanceLink> link_of(const sandbox::NetworkPlan& plan,
                                               const std::string& host);
  static Result<sandbox::NetworkPlan> plan_of(const sandbox::NetworkRequest& request);

  LocalEngine(LocalEngineOptions options, Random& random, std::string boot)
      : options_(std::move(options)),
        records_(options_.run_directory),
        random_(random),
        boot_(std::move(boot)),
        groups_(options_.limits, sandbox::find_hierarchies()) {}

  Result<void> adopt_gang(Gang gang);
  void find_instances(Gang& gang) const;
  Result<sandbox::NetworkPlan> make_network(const control::GangRequest& request,
                                            GangRecord& record) const;
  Result<Gang> prepare_namespaces(const control::GangRequest& request);
  Result<Gang> prepare_on_loopback(const control::GangRequest& request);
  Result<Gang> try_block(const control::GangRequest& request, const std::string& tag,
                         const sandbox::Ipv4Prefix& subnet);
  Result<void> check_user_namespaces();
  Result<void> renew_network(const Launch& launch, bool is_gone) const;
  Result<void> open_gateway(GangRecord& record, const std::string& address) const;
  Result<void> open_or_dismantle(Gang& gang);
  std::optional<Result<control::GangNetwork>> prepared(const control::GangRequest& request);
  Result<Launch> plan_launch(const control::GangId& id,
                             const std::vector<control::InstanceStart>& instances);
  Result<void> prepare_hosts(Launch& launch);
  Result<void> start_hosts(const Launch& launch);
  Result<void> end_hosts(const GangRecord& record, const sandbox::NetworkPlan& plan,
                         const std::vector<std::string>& hosts);
  void undo_start(const Launch& launch);
  Result<Instance> start_one(const GangRecord& record, const sandbox::InstanceLink& link,
                             const control::InstanceStart& start);
  Result<Child> spawn_supervisor(const GangRecord& record, const std::string& network_namespace,
                                 const Path& scratch) const;
  Result<void> add(const control::GangId& id, const std::string& host, Instance instance);
  void ended(const control::GangId& id, const std::string& host, const sandbox::ProcessId& process);
  Result<void> kill_all(const GangRecord& record,
                        const std::vector<std::string>& network_namespaces,
                        const Instances& instances) const;
  Result<void> undo_network(const Gang& gang);
  Result<void> dismantle(const Gang& gang);

  const LocalEngineOptions options_;
  const Records records_;
  Random& random_;
  const std::string boot_;
  InstanceGroups groups_;
  sandbox::LoopbackBlocks blocks_;
  std::atomic<bool> namespaces_work_ = false;  // an ordinary user's; what worked once works on
  Mutex mutex_;
  std::vector<Gang> leftovers_ GUARDED_BY(mutex_);  // read from disk, to be adopted
  std::map<control::GangId, Gang> gangs_ GUARDED_BY(mutex_);
  std::function<void(const control::RunningInstance&)> on_exit_ GUARDED_BY(mutex_);
  std::unique_ptr<ExitWatch> exits_;  // last: its thread uses all of the above
};

}  // namespace trainyard::engine
