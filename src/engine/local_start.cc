// SPDX-License-Identifier: Apache-2.0
// How instances come to life: at the first launch of a gang, and when lost ones are replaced for a
// later attempt. First it is settled who is to be started; then whatever was in their places is
// ended and cleared away; then they are started, all or none.
#include <algorithm>
#include <csignal>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "engine/local.h"
#include "sandbox/mounts.h"

namespace trainyard::engine {
namespace {

using control::GangId;
using control::InstanceStart;
using control::RunningInstance;
using sandbox::NetworkPlan;

}  // namespace

// "algo-3" has the third link.
Result<sandbox::InstanceLink> LocalEngine::link_of(const NetworkPlan& plan,
                                                   const std::string& host) {
  constexpr std::string_view kPrefix = "algo-";
  const Result<std::int64_t> rank = host.starts_with(kPrefix)
                                        ? parse_int(std::string_view(host).substr(kPrefix.size()))
                                        : Result<std::int64_t>(0);
  const auto size = static_cast<std::int64_t>(plan.instances.size());
  if (!rank || *rank < 1 || *rank > size) {
    return Error{Code::kInvalidArgument,
                 fmt::format("host '{}' is not one of algo-1 to algo-{}", host, size)};
  }
  return plan.instances[static_cast<std::size_t>(*rank - 1)];
}

Result<void> LocalEngine::start(const GangId& id, const std::vector<InstanceStart>& instances) {
  YARD_TRY(adopt());
  YARD_TRY(Launch launch, plan_launch(id, instances));
  if (launch.starts.empty()) {
    return {};
  }
  Result<void> started = prepare_hosts(launch);
  if (started) {
    started = start_hosts(launch);
  }
  if (!started) {
    undo_start(launch);
    return started.error().in(fmt::format("starting the instances of {}", name_of(id)));
  }
  return {};
}

Result<LocalEngine::Launch> LocalEngine::plan_launch(const GangId& id,
                                                     const std::vector<InstanceStart>& instances) {
  const MutexLock lock(mutex_);
  const auto found = gangs_.find(id);
  if (found == gangs_.end()) {
    return Error{Code::kNotFound, fmt::format("gang {} was not prepared", name_of(id)),
                 std::string(control::kGangSubject)};
  }
  const Gang& gang = found->second;
  Launch launch{.record = gang.record,
                .plan = gang.plan,
                .gateway_is_open = gang.gateway_is_open,
                .starts = {},
                .replaced = {}};
  for (const InstanceStart& start : instances) {
    YARD_TRY(link_of(gang.plan, start.host));
    const auto former = gang.instances.find(start.host);
    if (former == gang.instances.end()) {
      launch.starts.push_back(start);
      continue;
    }
    const bool runs = is_alive(former->second.pidfd);
    if (runs && former->second.epoch > start.epoch) {
      return Error{Code::kConflict, fmt::format("{} of {} runs for attempt {} already", start.host,
                                                name_of(id), former->second.epoch)};
    }
    if (!runs || former->second.epoch < start.epoch) {
      launch.starts.push_back(start);
      launch.replaced.push_back(start.host);
    }
  }
  return launch;
}

// What the gang as a whole lacks, then what is in the way of the single hosts.
Result<void> LocalEngine::prepare_hosts(Launch& launch) {
  GangRecord& record = launch.record;
  const bool is_gone = record.boot != boot_;  // with everything of the boot before
  YARD_TRY(end_hosts(record, launch.plan, launch.replaced));
  if (is_gone || !launch.replaced.empty()) {
    YARD_TRY(renew_network(launch, is_gone));
  }
  if (is_gone) {
    record.boot = boot_;
    YARD_TRY(records_.write(record));
  }
  if (!launch.gateway_is_open) {
    YARD_TRY(open_gateway(record, launch.plan.gateway));
  }
  const MutexLock lock(mutex_);
  Gang& gang = gangs_.at(record.id);
  gang.record = record;
  gang.gateway_is_open = true;
  return {};
}

// Nothing of them lives on, and nothing that they left. Their ends are not told.
Result<void> LocalEngine::end_hosts(const GangRecord& record, const NetworkPlan& plan,
                                    const std::vector<std::string>& hosts) {
  const GangId& id = record.id;
  if (hosts.empty()) {
    return {};
  }
  Instances former;
  {
    const MutexLock lock(mutex_);
    for (const std::string& host : hosts) {
      Instance& instance = gangs_.at(id).instances.at(host);
      Instance nothing{.process = {}, .pidfd = Fd(), .epoch = instance.epoch};
      former.emplace(host, std::exchange(instance, std::move(nothing)));
    }
  }
  std::vector<std::string> namespaces;
  for (const std::string& host : hosts) {
    YARD_TRY(const sandbox::InstanceLink link, link_of(plan, host));
    if (!link.network_namespace.empty()) {
      namespaces.push_back(link.network_namespace);
    }
  }
  YARD_TRY(kill_all(record, namespaces, former));
  for (const std::string& host : hosts) {
    // First: the disk may be full of it. The process that the record still names is dead.
    YARD_TRY(sandbox::unmount_below(records_.scratch(id, host)));
    YARD_TRY(remove_tree(records_.scratch(id, host)));
    YARD_TRY(records_.write(id, {.host = host, .process = {}, .epoch = former.at(host).epoch}));
  }
  return {};
}

Result<void> LocalEngine::start_hosts(const Launch& launch) {
  for (const InstanceStart& start : launch.starts) {
    YARD_TRY(const sandbox::InstanceLink link, link_of(launch.plan, start.host));
    YARD_TRY(Instance instance, start_one(launch.record, link, start));
    YARD_TRY(add(launch.record.id, start.host, std::move(instance)));
  }
  return {};
}

// The hosts stay known, as ended: a restarted server must find what there is to give back.
void LocalEngine::undo_start(const Launch& launch) {
  std::vector<std::string> hosts;
  {
    const MutexLock lock(mutex_);
    const Instances& instances = gangs_.at(launch.record.id).instances;
    for (const InstanceStart& start : launch.starts) {
      if (instances.contains(start.host)) {
        hosts.push_back(start.host);
      }
    }
  }
  if (auto ended = end_hosts(launch.record, launch.plan, hosts); !ended) {
    log_error(
        ended.error().in(fmt::format("undoing a start of {}", name_of(launch.record.id))).message);
  }
}

Result<LocalEngine::Instance> LocalEngine::start_one(const GangRecord& record,
                                                     const sandbox::InstanceLink& link,
                                                     const InstanceStart& start) {
  const Path scratch = records_.scratch(record.id, start.host);
  YARD_TRY(make_directories(scratch, 0700));
  YARD_TRY(make_directories(records_.meeting(record.id), 0700));
  YARD_TRY(write_file(scratch / "token", start.token, 0600));
  InstanceRecord written{.host = start.host, .process = {}, .epoch = start.epoch};
  YARD_TRY(records_.write(record.id, written));
  YARD_TRY(groups_.make(fmt::format("trainyard-{}-{}", record.network.tag, start.host), scratch));
  Result<Child> child = spawn_supervisor(record, link.network_namespace, scratch);
  auto recorded = [&]() -> Result<Instance> {
    if (!child) {
      return std::move(child).error();
    }
    // It cannot have been reaped yet, so its pid still means it.
    YARD_TRY(written.process, sandbox::identify(child->pid()));
    YARD_TRY(records_.write(record.id, written));
    YARD_TRY(Fd pidfd, sandbox::open_process(written.process));
    return Instance{.process = written.process, .pidfd = std::move(pidfd), .epoch = start.epoch};
  }();
  if (!recorded && child) {
    YARD_TRY(child->signal(SIGKILL));
    YARD_TRY(child->wait());
  }
  // Nobody else would: the host is not among the gang's instances yet.
  if (!recorded) {
    if (const auto ended = InstanceGroups::end(scratch, options_.kill_deadline); !ended) {
      log_error(
          ended.error().in(fmt::format("ending the control groups of {}", start.host)).message);
    }
  }
  return recorded;
}

Result<Child> LocalEngine::spawn_supervisor(const GangRecord& record,
                                            const std::string& network_namespace,
                                            const Path& scratch) const {
  SpawnOptions options{
      .argv = {options_.program.string(), "instance", "--server", record.server_url, "--scratch",
               scratch.string(), "--meeting", records_.meeting(record.id).string()},
      .env = options_.environment,
      .inherit_env = true,
      .directory = scratch,
      .new_session = true};
  Fd inside;
  if (sandbox::is_loopback(record.network.subnet)) {
    const sandbox::PortRange ports = sandbox::ports_of(record.network.subnet);
    options.argv.insert(options.argv.end(), {"--loopback", to_string(ports)});
  } else {
    YARD_TRY(inside, sandbox::open_namespace(network_namespace));
    options.network_namespace = inside.get();
  }
  YARD_TRY(const Fd log,
           open_file(scratch / "supervisor.log", O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600));
  options.fds = {{log.get(), STDOUT_FILENO}, {log.get(), STDERR_FILENO}};
  return spawn(options);
}

// Into the table first and then watched, so that even the end of an instance that dies at once is
// told, and one that cannot be watched is known and can be ended.
Result<void> LocalEngine::add(const GangId& id, const std::string& host, Instance instance) {
  const sandbox::ProcessId process = instance.process;
  Fd watched;
  {
    const MutexLock lock(mutex_);
    Instance& known = gangs_.at(id).instances[host];
    known = std::move(instance);
    if (!known.pidfd.is_open()) {
      return {};
    }
    watched = Fd(fcntl(known.pidfd.get(), F_DUPFD_CLOEXEC, 0));
    if (!watched.is_open()) {
      return errno_error("watching an instance", errno);
    }
  }
  return exits_->add(std::move(watched), [this, id, host, process] { ended(id, host, process); });
}

void LocalEngine::ended(const GangId& id, const std::string& host,
                        const sandbox::ProcessId& process) {
  RunningInstance instance{.id = id, .host = host, .alive = false};
  std::function<void(const RunningInstance&)> callback;
  {
    const MutexLock lock(mutex_);
    const auto gang = gangs_.find(id);
    if (gang == gangs_.end()) {
      return;  // we ended it ourselves
    }
    const auto found = gang->second.instances.find(host);
    if (found == gang->second.instances.end() || found->second.process != process) {
      return;  // it was replaced
    }
    instance.epoch = found->second.epoch;
    callback = on_exit_;
  }
  log_info(fmt::format("the supervisor of {} of {} has ended", host, name_of(id)));
  if (callback) {
    callback(instance);
  }
}

}  // namespace trainyard::engine
