// SPDX-License-Identifier: Apache-2.0
#include "instance/mpi/worker.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "base/thread.h"
#include "instance/launch/contract.h"
#include "instance/launch/mpi_command.h"
#include "instance/launch/mpi_link.h"
#include "instance/mpi/report.h"
#include "instance/mpi/stop_signals.h"
#include "instance/remote_shell/acceptor.h"
#include "instance/remote_shell/shell_session.h"

namespace trainyard::instance {
namespace {

// The leader looks for us as soon as it runs, and its instance was ready when ours was.
constexpr Duration kLeaderPatience{120'000};
constexpr Duration kStopPatience{2'000};
constexpr Duration kInterval{100};
constexpr std::chrono::hours kLongestJob{24 * 365};

using Watchers = BoundedQueue<Connection>;

void talk(Connection peer, const ShellPlace& place, Watchers& watchers,
          const std::stop_token& stop) {
  const Result<Frame> first = peer.next(kHandshakePatience, stop);
  if (first && first->kind == FrameKind::kCommand) {
    run_shell_session(peer, first->payload, place, stop);
  } else if (first && first->kind == FrameKind::kWatch) {
    watchers.push(std::move(peer));
  }
}

Result<ProcessEnd> hear_verdict(Connection& leader) {
  YARD_TRY(const Frame verdict, leader.next(kLongestJob));
  if (verdict.kind != FrameKind::kVerdict) {
    return Error{Code::kCorrupt, "the leader does not speak our protocol"};
  }
  return process_end_from_line(verdict.payload);
}

// A stop that comes before the leader does may have kept it from coming at all.
std::optional<Connection> wait_for_leader(Watchers& watchers, const Fd& signals) {
  auto deadline = std::chrono::steady_clock::now() + kLeaderPatience;
  bool stopping = false;
  while (std::chrono::steady_clock::now() < deadline) {
    if (std::optional<Connection> leader = watchers.pop_for(kInterval)) {
      return leader;
    }
    if (!stopping && stop_came(signals)) {
      stopping = true;
      deadline = std::min(deadline, std::chrono::steady_clock::now() + kStopPatience);
    }
  }
  return std::nullopt;
}

int serve(const MpiLink& link, const Variables& environment, const Fd& signals) {
  const Result<wire::Host> own = host_named(link, link.host);
  if (!own) {
    return report_lost(own.error());
  }
  const ShellPlace place{.environment = environment,
                         .directory = std::string(kCodeDirectory),
                         .prefix = {kOwnProgram, kMpiVerb, "guard"}};
  Watchers watchers(1);
  Result<std::unique_ptr<Acceptor>> shells =
      Acceptor::listen({.address = own->address, .port = link.port}, link.secret,
                       [&](Connection peer, const std::stop_token& stop) {
                         talk(std::move(peer), place, watchers, stop);
                       });
  if (!shells) {
    return report_lost(shells.error());
  }
  std::optional<Connection> leader = wait_for_leader(watchers, signals);
  const Result<ProcessEnd> end =
      leader ? hear_verdict(*leader) : Error{Code::kDeadline, "it has not come"};
  watchers.close();
  shells->reset();  // ends the commands that still run
  return end ? report_end(*end)
             : report_lost(end.error().in("waiting for " + link.hosts.front().name));
}

}  // namespace

int serve_main(const Variables& environment) {
  const Result<Fd> signals = block_stop_signals();
  const Result<MpiLink> link = mpi_link_in(environment);
  if (!signals || !link) {
    return report_lost(link ? signals.error() : link.error());
  }
  return serve(*link, environment, *signals);
}

}  // namespace trainyard::instance
