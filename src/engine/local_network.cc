// SPDX-License-Identifier: Apache-2.0
// How a gang gets its network and loses it: a bridge and namespaces as root, a block of the
// loopback otherwise. The subnet of its record says which of the two a gang has.
#include <fmt/format.h>

#include "base/log.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "engine/local.h"

namespace trainyard::engine {
namespace {

using control::GangRequest;
using sandbox::NetworkChange;
using sandbox::NetworkPlan;

constexpr std::chrono::seconds kProbeDeadline(10);
// Of blocks in which somebody begins to listen just before us.
constexpr int kBlockAttempts = 5;

Result<std::uint16_t> port_of(const std::string& url) {
  const Result<std::int64_t> port = parse_int(url.substr(url.rfind(':') + 1));
  if (!port || *port < 1 || *port > 65535) {
    return Error{Code::kInternal, fmt::format("'{}' names no port", url)};
  }
  return static_cast<std::uint16_t>(*port);
}

}  // namespace

Result<NetworkPlan> LocalEngine::plan_of(const sandbox::NetworkRequest& request) {
  return sandbox::is_loopback(request.subnet) ? sandbox::plan_loopback(request)
                                              : sandbox::plan_network(request);
}

Result<LocalEngine::Gang> LocalEngine::prepare_namespaces(const GangRequest& request) {
  Gang gang{.record = {.id = request.id, .network = {}, .boot = boot_, .server_url = {}},
            .plan = {}};
  YARD_TRY(gang.plan, make_network(request, gang.record));
  YARD_TRY(open_or_dismantle(gang));
  return gang;
}

Result<NetworkPlan> LocalEngine::make_network(const GangRequest& request,
                                              GangRecord& record) const {
  YARD_TRY(const NetworkChange change, NetworkChange::begin(options_.network));
  Result<NetworkPlan> plan = Error{Code::kInternal, ""};
  // A tag that is taken is a matter of bad luck, once in 16 million.
  for (int attempt = 0; attempt < 3; ++attempt) {
    plan = change.choose(random_.hex(3), request.instances, request.isolated);
    if (plan || plan.error().code != Code::kAlreadyExists) {
      break;
    }
  }
  if (!plan) {
    return plan;
  }
  // Recorded before it is made: a crash in the middle leaves what a restarted server can take away.
  record.network = plan->request;
  YARD_TRY(records_.write(record));
  if (auto applied = change.apply(*plan); !applied) {
    YARD_TRY(records_.remove_gang(record.id));
    return applied.error();
  }
  return plan;
}

// Whoever listens on the gateway has the block; we may come too late.
Result<LocalEngine::Gang> LocalEngine::prepare_on_loopback(const GangRequest& request) {
  YARD_TRY(check_user_namespaces());
  const std::string tag = random_.hex(3);
  const int start = std::stoi(tag, nullptr, 16) % sandbox::kBlocks;
  Result<Gang> gang = Error{Code::kInternal, ""};
  for (int attempt = 0; attempt < kBlockAttempts; ++attempt) {
    YARD_TRY(const sandbox::Ipv4Prefix subnet, blocks_.take(start + attempt));
    gang = try_block(request, tag, subnet);
    if (gang || gang.error().code == Code::kInvalidArgument) {
      break;
    }
  }
  return gang;
}

Result<LocalEngine::Gang> LocalEngine::try_block(const GangRequest& request, const std::string& tag,
                                                 const sandbox::Ipv4Prefix& subnet) {
  Gang gang{.record = {.id = request.id,
                       .network = {.tag = tag,
                                   .subnet = subnet,
                                   .instances = request.instances,
                                   .isolated = request.isolated},
                       .boot = boot_,
                       .server_url = {}},
            .plan = {}};
  Result<NetworkPlan> plan = plan_of(gang.record.network);
  Result<void> recorded = plan ? records_.write(gang.record) : plan.error();
  if (!recorded) {
    blocks_.give_back(subnet);
    return recorded.error();
  }
  gang.plan = *std::move(plan);
  YARD_TRY(open_or_dismantle(gang));
  return gang;
}

Result<void> LocalEngine::open_or_dismantle(Gang& gang) {
  Result<void> opened = open_gateway(gang.record, gang.plan.gateway);
  if (!opened) {
    if (auto undone = dismantle(gang); !undone) {
      log_error(undone.error().in(fmt::format("undoing gang {}", name_of(gang.record.id))).message);
    }
  }
  gang.gateway_is_open = bool(opened);
  return opened;
}

// In a process of its own, since a process enters such namespaces for good.
Result<void> LocalEngine::check_user_namespaces() {
  if (namespaces_work_) {
    return {};
  }
  YARD_TRY(const Output output, run_command({.argv = {options_.program.string(), "instance-probe"},
                                             .env = options_.environment,
                                             .inherit_env = true},
                                            kProbeDeadline));
  if (!output.status.ok()) {
    return Error{Code::kDenied, std::string(trim(output.err))};
  }
  namespaces_work_ = true;
  return {};
}

// The port of the record, if it has one: instances that run know no other.
Result<void> LocalEngine::open_gateway(GangRecord& record, const std::string& address) const {
  const bool is_shared = sandbox::is_loopback(record.network.subnet);
  std::uint16_t port = is_shared ? sandbox::ports_of(record.network.subnet).gateway() : 0;
  if (!record.server_url.empty()) {
    YARD_TRY(port, port_of(record.server_url));
  }
  YARD_TRY(const std::string url, options_.open_gateway(address, port));
  if (url == record.server_url) {
    return {};
  }
  record.server_url = url;
  YARD_TRY(port_of(url));
  return records_.write(record);
}

// After a restart of the machine there is nothing left of a network; else only what the replaced
// hosts had is made anew. A gang on the loopback has nothing that could be lost.
Result<void> LocalEngine::renew_network(const Launch& launch, bool is_gone) const {
  if (sandbox::is_loopback(launch.record.network.subnet)) {
    return {};
  }
  std::vector<sandbox::InstanceLink> links;
  for (const std::string& host : launch.replaced) {
    YARD_TRY(links.emplace_back(), link_of(launch.plan, host));
  }
  YARD_TRY(const NetworkChange change, NetworkChange::begin(options_.network));
  return is_gone ? change.apply(launch.plan) : change.renew(launch.plan, links);
}

Result<void> LocalEngine::undo_network(const Gang& gang) {
  if (sandbox::is_loopback(gang.record.network.subnet)) {
    blocks_.give_back(gang.record.network.subnet);
    return {};
  }
  YARD_TRY(const NetworkChange change, NetworkChange::begin(options_.network));
  return change.undo(gang.plan);
}

}  // namespace trainyard::engine
