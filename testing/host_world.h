// SPDX-License-Identifier: Apache-2.0
// Worlds of several hosts on one: real TCP on the loopback between all ranks, or between hosts
// only, with a segment of shared memory inside each and the router in front of both. The parts are
// those that create() makes; only the joining is left out.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "comm/run/plan.h"
#include "comm/transport/router.h"
#include "comm/transport/tcp/tcp_transport.h"
#include "testing/comm_world.h"

namespace trainyard::testing {

// Where the ranks of a world listen, and what they know of each other.
class TcpDoors {
 public:
  explicit TcpDoors(std::int32_t size) {
    common_.secret = "of this world";
    for (std::int32_t rank = 0; rank < size; ++rank) {
      auto listener = comm::listen_tcp({"127.0.0.1", 0});
      YARD_CHECK(listener.has_value(), listener.error().message);
      acceptors_.push_back(
          std::make_shared<comm::Acceptor>(std::move(*listener), common_.secret, rank));
      common_.peers.push_back({.port = acceptors_.back()->port(), .addresses = {"127.0.0.1"}});
      common_.names.push_back("rank " + std::to_string(rank));
    }
  }

  // Ends after the transports of its rank.
  std::shared_ptr<comm::Acceptor> acceptor(std::int32_t rank) const {
    return acceptors_[static_cast<std::size_t>(rank)];
  }
  std::unique_ptr<comm::Transport> transport(std::int32_t rank, std::uint32_t channel,
                                             comm::Fault& fault) const {
    comm::TcpOptions options = common_;
    options.rank = rank;
    options.channel = channel;
    return std::make_unique<comm::TcpTransport>(std::move(options), *acceptor(rank), fault);
  }

 private:
  comm::TcpOptions common_;
  std::vector<std::shared_ptr<comm::Acceptor>> acceptors_;  // by rank
};

// Every rank by TCP to every other one, whatever `options` say of hosts.
inline LocalWorld make_tcp_communicators(std::int32_t size, const WorldOptions& options = {}) {
  LocalWorld world{.network = nullptr, .hub = std::make_shared<FaultHub>(), .ranks = {}};
  const TcpDoors doors(size);
  for (std::int32_t rank = 0; rank < size; ++rank) {
    comm::Communicator::Parts parts = common_parts(options, rank, size, world.hub);
    parts.collectives = doors.transport(rank, 0, *parts.fault);
    parts.point_to_point = doors.transport(rank, 1, *parts.fault);
    parts.memory = leaving(world.hub, parts.fault.get(), doors.acceptor(rank));
    world.ranks.push_back(make_communicator(std::move(parts), options));
  }
  return world;
}

// What the ranks of one host have in common; nothing where there is only one.
struct HostMemory {
  std::vector<std::int32_t> ranks;
  std::array<std::shared_ptr<const comm::Segment>, 2> segments;

  void open() {
    for (auto& segment : segments) {
      const auto shape = comm::default_shape(static_cast<std::uint32_t>(ranks.size()));
      segment = std::make_shared<const comm::Segment>(comm::Segment::create(shape).value());
    }
  }
  std::unique_ptr<comm::Transport> transport(std::int32_t rank, std::uint32_t channel,
                                             comm::Fault& fault, comm::HeapRegistry& heaps) const {
    const auto index = std::ranges::find(ranks, rank) - ranks.begin();
    return comm::ShmTransport::create(segments[channel],
                                      {.index = static_cast<std::uint32_t>(index), .ranks = ranks},
                                      fault, heaps)
        .value();
  }
};

// The hosts of `options`: ranks of one by shared memory, the others by TCP. A rank that is alone on
// its host has TCP only.
class RoutedRanks {
 public:
  RoutedRanks(std::int32_t size, const WorldOptions& options) : host_(options.host), doors_(size) {
    host_.resize(static_cast<std::size_t>(size));
    for (std::int32_t rank = 0; rank < size; ++rank) {
      hosts_[host_of(rank)].ranks.push_back(rank);
    }
    for (auto& [number, host] : hosts_) {
      if (host.ranks.size() > 1) {
        host.open();
      }
    }
  }

  void give_transports(std::int32_t rank, const std::shared_ptr<FaultHub>& hub,
                       comm::Communicator::Parts& parts) const {
    const auto heaps = std::make_shared<comm::HeapRegistry>();
    parts.collectives = transport(rank, 0, *parts.fault, *heaps);
    parts.point_to_point = transport(rank, 1, *parts.fault, *heaps);
    parts.memory = leaving(hub, parts.fault.get(), std::pair(doors_.acceptor(rank), heaps));
  }

 private:
  std::int32_t host_of(std::int32_t rank) const { return host_[static_cast<std::size_t>(rank)]; }

  std::unique_ptr<comm::Transport> transport(std::int32_t rank, std::uint32_t channel,
                                             comm::Fault& fault, comm::HeapRegistry& heaps) const {
    auto far = doors_.transport(rank, channel, fault);
    const HostMemory& own = hosts_.at(host_of(rank));
    if (own.ranks.size() == 1) {
      return far;
    }
    std::vector<bool> is_near;
    is_near.reserve(host_.size());
    for (const std::int32_t host : host_) {
      is_near.push_back(host == host_of(rank));
    }
    return std::make_unique<comm::Router>(own.transport(rank, channel, fault, heaps),
                                          std::move(far), std::move(is_near));
  }

  std::vector<std::int32_t> host_;
  TcpDoors doors_;
  std::map<std::int32_t, HostMemory> hosts_;
};

// Ranks of a host by shared memory, hosts by TCP. What a message may hold is the least of all.
inline LocalWorld make_routed_communicators(std::int32_t size, const WorldOptions& options) {
  LocalWorld world{.network = nullptr, .hub = std::make_shared<FaultHub>(), .ranks = {}};
  const RoutedRanks ranks(size, options);
  std::vector<comm::Communicator::Parts> all;
  comm::Limits least{
      .max_message = SIZE_MAX, .room = SIZE_MAX, .message_cost = comm::Transport::kMessageCost};
  for (std::int32_t rank = 0; rank < size; ++rank) {
    all.push_back(common_parts(options, rank, size, world.hub));
    ranks.give_transports(rank, world.hub, all.back());
    least.max_message = std::min(least.max_message, all.back().collectives->max_message());
    least.room = std::min(least.room, all.back().collectives->room());
  }
  for (comm::Communicator::Parts& parts : all) {
    parts.limits = least;
    world.ranks.push_back(make_communicator(std::move(parts), options));
  }
  return world;
}

}  // namespace trainyard::testing
