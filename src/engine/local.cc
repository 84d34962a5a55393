// SPDX-License-Identifier: Apache-2.0
#include "engine/local.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "base/log.h"
#include "base/text.h"
#include "sandbox/mounts.h"
#include "sandbox/process_tree.h"

namespace trainyard::engine {
namespace {

using control::GangId;
using control::GangNetwork;
using control::GangRequest;
using control::RunningInstance;
using sandbox::NetworkPlan;

std::vector<std::string> namespaces_of(const NetworkPlan& plan) {
  std::vector<std::string> names;
  names.reserve(plan.instances.size());
  for (const sandbox::InstanceLink& link : plan.instances) {
    if (!link.network_namespace.empty()) {
      names.push_back(link.network_namespace);
    }
  }
  return names;
}

GangNetwork network_of(const GangRecord& record, const NetworkPlan& plan) {
  const bool is_shared = sandbox::is_loopback(record.network.subnet);
  GangNetwork network{
      .addresses = {}, .interface = is_shared ? "lo" : "eth0", .server = record.server_url};
  for (const sandbox::InstanceLink& link : plan.instances) {
    network.addresses.push_back(link.address);
  }
  return network;
}

}  // namespace

std::string LocalEngine::name_of(const GangId& id) {
  return fmt::format("{}/{}", id.job, id.epoch);
}

bool LocalEngine::is_alive(const Fd& pidfd) {
  return pidfd.is_open() && !sandbox::has_ended(pidfd.get());
}

Result<std::unique_ptr<LocalEngine>> LocalEngine::make(LocalEngineOptions options, Random& random) {
  // /proc/<pid>/mountinfo and command lines show whole paths, so ours must be one.
  std::error_code failure;
  options.run_directory = std::filesystem::absolute(options.run_directory, failure);
  YARD_TRY(make_directories(options.run_directory, 0700));
  options.run_directory = std::filesystem::canonical(options.run_directory, failure);
  if (!failure && options.program.empty()) {
    options.program = std::filesystem::read_symlink("/proc/self/exe", failure);
  }
  if (failure) {
    return errno_error("finding the program and the run directory", failure.value());
  }
  YARD_TRY(std::string boot, sandbox::boot_id());
  std::unique_ptr<LocalEngine> engine(new LocalEngine(std::move(options), random, std::move(boot)));
  YARD_TRY(engine->exits_, ExitWatch::make());
  for (GangRecord& record : engine->records_.gangs()) {
    Result<NetworkPlan> plan = plan_of(record.network);
    if (!plan) {
      log_error(plan.error().in(fmt::format("reading gang {}", name_of(record.id))).message);
      continue;
    }
    engine->blocks_.adopt(record.network.subnet);
    const MutexLock lock(engine->mutex_);
    engine->leftovers_.push_back({.record = std::move(record), .plan = *std::move(plan)});
  }
  if (engine->options_.network_kind == NetworkKind::kLoopback) {
    // Told at once, although it is no reason not to start: it can be set right meanwhile.
    if (const auto works = engine->check_user_namespaces(); !works) {
      log_error("no job can run: " + works.error().message);
    }
  }
  return engine;
}

void LocalEngine::on_exit(std::function<void(const RunningInstance&)> callback) {
  const MutexLock lock(mutex_);
  on_exit_ = std::move(callback);
}

Result<void> LocalEngine::adopt() {
  std::vector<Gang> leftovers;
  {
    const MutexLock lock(mutex_);
    leftovers.swap(leftovers_);
  }
  for (Gang& gang : leftovers) {
    const std::string name = name_of(gang.record.id);
    if (auto adopted = adopt_gang(std::move(gang)); !adopted) {
      log_error(adopted.error().in(fmt::format("taking over gang {}", name)).message);
    }
  }
  return {};
}

Result<void> LocalEngine::adopt_gang(Gang gang) {
  find_instances(gang);
  const GangId id = gang.record.id;
  Result<void> result;
  if (gang.instances.empty()) {
    result = dismantle(gang);
    if (result) {
      return result;
    }
  } else if (gang.record.boot == boot_) {
    result = open_gateway(gang.record, gang.plan.gateway);
    gang.gateway_is_open = bool(result);
  }
  log_info(fmt::format("took over gang {} with {} instances", name_of(id), gang.instances.size()));
  Instances instances = std::move(gang.instances);
  {
    // Whatever went wrong, the gang is known, so that it can be released.
    const MutexLock lock(mutex_);
    gang.instances.clear();
    gangs_.emplace(id, std::move(gang));
  }
  for (auto& [host, instance] : instances) {
    if (auto added = add(id, host, std::move(instance)); !added) {
      result = std::move(added);  // the others are known all the same
    }
  }
  return result;
}

// A crash may have come between the start of a process and its record. Its command line names its
// scratch directory, so it is found all the same; else it never came to be, and counts as ended.
// Where its record cannot be written, the next start finds it so again.
void LocalEngine::find_instances(Gang& gang) const {
  const GangId& id = gang.record.id;
  const bool same_boot = gang.record.boot == boot_;
  for (InstanceRecord& record : records_.instances(id)) {
    if (record.process.pid == 0 && same_boot) {
      const auto found = sandbox::find_session_leaders(records_.scratch(id, record.host).string());
      if (!found.empty()) {
        record.process = found.front();
        if (const auto written = records_.write(id, record); !written) {
          log_error(written.error().in(fmt::format("recording {}", record.host)).message);
        }
      }
    }
    Fd pidfd;
    if (record.process.pid != 0 && same_boot) {
      pidfd = sandbox::open_process(record.process).value_or(Fd());
    }
    gang.instances.emplace(
        record.host,
        Instance{.process = record.process, .pidfd = std::move(pidfd), .epoch = record.epoch});
  }
}

std::optional<Result<GangNetwork>> LocalEngine::prepared(const GangRequest& request) {
  const MutexLock lock(mutex_);
  const auto found = gangs_.find(request.id);
  if (found == gangs_.end()) {
    return std::nullopt;
  }
  const Gang& gang = found->second;
  if (gang.record.server_url.empty() || gang.record.network.instances != request.instances ||
      gang.record.network.isolated != request.isolated) {
    return Error{Code::kAlreadyExists,
                 fmt::format("gang {} exists and is a different one", name_of(request.id))};
  }
  return network_of(gang.record, gang.plan);
}

Result<GangNetwork> LocalEngine::prepare(const GangRequest& request) {
  YARD_TRY(check_name(request.id.job));
  YARD_TRY(adopt());
  if (auto known = prepared(request)) {
    return *std::move(known);
  }
  YARD_TRY(Gang gang, options_.network_kind == NetworkKind::kLoopback
                          ? prepare_on_loopback(request)
                          : prepare_namespaces(request));
  GangNetwork network = network_of(gang.record, gang.plan);
  const MutexLock lock(mutex_);
  gangs_.emplace(request.id, std::move(gang));
  return network;
}

Result<std::vector<RunningInstance>> LocalEngine::list() {
  YARD_TRY(adopt());
  std::vector<RunningInstance> all;
  const MutexLock lock(mutex_);
  for (const auto& [id, gang] : gangs_) {
    for (const auto& [host, instance] : gang.instances) {
      all.push_back(
          {.id = id, .host = host, .alive = is_alive(instance.pidfd), .epoch = instance.epoch});
    }
  }
  return all;
}

Result<void> LocalEngine::release(const GangId& id) {
  YARD_TRY(adopt());
  Gang gang;
  {
    const MutexLock lock(mutex_);
    auto node = gangs_.extract(id);
    if (node.empty()) {
      return {};
    }
    gang = std::move(node.mapped());
  }
  Result<void> gone = dismantle(gang);
  if (!gone) {
    const MutexLock lock(mutex_);
    gangs_.emplace(id, std::move(gang));
    return gone.error().in(fmt::format("releasing gang {}", name_of(id)));
  }
  return gone;
}

// Containers die with their supervisor; daemons that had left it are found by their network, or,
// where they have none of their own, by their ancestors, and so before these are dead. What hangs
// in the kernel dies when it comes back from there; nobody waits for it.
Result<void> LocalEngine::kill_all(const GangRecord& record,
                                   const std::vector<std::string>& network_namespaces,
                                   const Instances& instances) const {
  const auto unless_it_hangs = [](const Result<void>& killed) -> Result<void> {
    if (killed || killed.error().code != Code::kDeadline) {
      return killed;
    }
    log_error(fmt::format("{}; restart this machine to be rid of it", killed.error().message));
    return {};
  };
  if (sandbox::is_loopback(record.network.subnet)) {
    std::vector<std::string> scratches;
    for (const auto& [host, instance] : instances) {
      scratches.push_back(records_.scratch(record.id, host).string());
    }
    YARD_TRY(unless_it_hangs(sandbox::kill_instances(scratches, options_.kill_deadline)));
  }
  for (const auto& [host, instance] : instances) {
    if (is_alive(instance.pidfd)) {
      YARD_TRY(
          unless_it_hangs(sandbox::kill_and_wait(instance.pidfd.get(), options_.kill_deadline)));
    }
  }
  YARD_TRY(unless_it_hangs(sandbox::kill_all_in(network_namespaces, options_.kill_deadline)));
  for (const auto& [host, instance] : instances) {
    const Path scratch = records_.scratch(record.id, host);
    if (const auto ended = InstanceGroups::end(scratch, options_.kill_deadline); !ended) {
      log_error(ended.error().in(fmt::format("ending the control groups of {}", host)).message);
    }
  }
  return {};
}

Result<void> LocalEngine::dismantle(const Gang& gang) {
  YARD_TRY(kill_all(gang.record, namespaces_of(gang.plan), gang.instances));
  if (!gang.record.server_url.empty()) {
    options_.close_gateway(gang.plan.gateway);
  }
  YARD_TRY(sandbox::unmount_below(records_.gang_directory(gang.record.id)));
  YARD_TRY(undo_network(gang));
  return records_.remove_gang(gang.record.id);
}

}  // namespace trainyard::engine
