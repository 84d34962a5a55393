// SPDX-License-Identifier: Apache-2.0
// A world of ranks that are threads of this process: communicators over the memory transport of
// tests, or over a segment of shared memory, and the means to run one function on every rank.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>

#include "base/check.h"
#include "comm/run/parts.h"
#include "comm/schedule/choose.h"
#include "comm/transport/shm/shm_transport.h"
#include "testing/fabric_ranks.h"
#include "testing/late_transport.h"
#include "testing/memory_transport.h"

namespace trainyard::testing {

struct WorldOptions {
  std::string name = "world";
  std::chrono::milliseconds timeout = std::chrono::seconds(20);
  MemoryOptions memory = {};
  bool spreads = true;                  // no: a fault stays with its rank, the others are late
  std::uint64_t delay_seed = 0;         // not 0: everything comes late (late_transport.h)
  std::vector<std::int32_t> host = {};  // by rank; none: all on one
  comm::Choices choices = comm::default_choices();
  std::shared_ptr<comm::ProgressBoard> board = nullptr;  // of all ranks
};

// Brings a fault of one rank to all, as the control connections of a real world do.
class FaultHub {
 public:
  void join(comm::Fault* fault) {
    const std::scoped_lock lock(mutex_);
    faults_.push_back(fault);
  }
  void leave(comm::Fault* fault) {
    const std::scoped_lock lock(mutex_);
    std::erase(faults_, fault);
  }
  void spread(const Error& error) {
    const std::scoped_lock lock(mutex_);
    for (comm::Fault* fault : faults_) {
      fault->raise(error);
    }
  }

 private:
  std::recursive_mutex mutex_;  // raise() comes back here
  std::vector<comm::Fault*> faults_;
};

struct LocalWorld {
  std::shared_ptr<MemoryNetwork> network;  // of collectives; null over shared memory
  std::shared_ptr<FaultHub> hub;
  std::vector<std::unique_ptr<comm::Communicator>> ranks;

  comm::Communicator& operator[](std::size_t rank) { return *ranks[rank]; }
};

inline comm::Communicator::Parts common_parts(const WorldOptions& options, std::int32_t rank,
                                              std::int32_t size,
                                              const std::shared_ptr<FaultHub>& hub) {
  comm::Communicator::Parts parts;
  parts.name = options.name;
  parts.world = {.rank = rank, .size = size, .host = options.host};
  parts.world.host.resize(static_cast<std::size_t>(size));
  parts.timeout = options.timeout;
  parts.fault = std::make_unique<comm::Fault>();
  parts.recorder = comm::Recorder::create(options.name, rank, nullptr).value();
  parts.point_to_point_recorder = comm::Recorder::create(options.name, rank, nullptr).value();
  parts.choices = options.choices;
  parts.board = options.board;
  hub->join(parts.fault.get());
  if (options.spreads) {
    parts.spread = [hub](const Error& error) { hub->spread(error); };
  }
  return parts;
}

// What the ranks of a local world share, and that this one leaves it at its end.
template <typename Shared>
std::shared_ptr<void> leaving(std::shared_ptr<FaultHub> hub, comm::Fault* fault, Shared shared) {
  struct Leaver {
    std::shared_ptr<FaultHub> hub;
    comm::Fault* fault;
    Shared shared;
    ~Leaver() { hub->leave(fault); }
  };
  return std::shared_ptr<Leaver>(new Leaver{std::move(hub), fault, std::move(shared)});
}

inline std::unique_ptr<comm::Communicator> make_communicator(comm::Communicator::Parts parts,
                                                             const WorldOptions& options) {
  if (options.delay_seed != 0) {
    const auto rank = static_cast<std::uint64_t>(parts.world.rank);
    for (auto* transport : {&parts.collectives, &parts.point_to_point}) {
      *transport =
          std::make_unique<LateTransport>(std::move(*transport), options.delay_seed * 1000 + rank);
    }
  }
  return comm::Communicator::from_parts(std::move(parts));
}

inline LocalWorld make_local_communicators(std::int32_t size, const WorldOptions& options = {}) {
  LocalWorld world{.network = std::make_shared<MemoryNetwork>(size, options.memory),
                   .hub = std::make_shared<FaultHub>(),
                   .ranks = {}};
  const auto side = std::make_shared<MemoryNetwork>(size, options.memory);
  for (std::int32_t rank = 0; rank < size; ++rank) {
    comm::Communicator::Parts parts = common_parts(options, rank, size, world.hub);
    parts.collectives = world.network->endpoint(rank);
    parts.point_to_point = side->endpoint(rank);
    parts.allocate =
        [network = world.network](std::size_t bytes) -> Result<std::shared_ptr<std::byte[]>> {
      return network->allocate(bytes);
    };
    parts.memory = leaving(world.hub, parts.fault.get(), std::pair(world.network, side));
    world.ranks.push_back(make_communicator(std::move(parts), options));
  }
  return world;
}

// What the threads of a world over shared memory have in common.
struct SharedMemoryWorld {
  std::shared_ptr<const comm::Segment> segments[2];  // of collectives; of sends and receives
  std::vector<std::unique_ptr<comm::HeapRegistry>> heaps;

  // A heap of `rank`, known to all others before anyone can send a window into it.
  Result<std::shared_ptr<std::byte[]>> allocate(std::int32_t rank, std::size_t bytes) {
    YARD_TRY(const comm::HeapRegistry::Made made,
             heaps[static_cast<std::size_t>(rank)]->make(bytes));
    for (std::size_t peer = 0; peer < heaps.size(); ++peer) {
      if (peer != static_cast<std::size_t>(rank)) {
        YARD_TRY(heaps[peer]->add_peers(rank, made.heap, Fd(fcntl(made.fd, F_DUPFD_CLOEXEC, 0))));
      }
    }
    return std::shared_ptr<std::byte[]>(made.memory, made.memory->bytes().data());
  }
};

inline LocalWorld make_shared_memory_communicators(std::int32_t size,
                                                   const WorldOptions& options = {}) {
  LocalWorld world{.network = nullptr, .hub = std::make_shared<FaultHub>(), .ranks = {}};
  const auto shared = std::make_shared<SharedMemoryWorld>();
  std::vector<std::int32_t> ranks;
  for (auto& segment : shared->segments) {
    segment = std::make_shared<const comm::Segment>(
        comm::Segment::create(comm::default_shape(static_cast<std::uint32_t>(size))).value());
  }
  for (std::int32_t rank = 0; rank < size; ++rank) {
    ranks.push_back(rank);
    shared->heaps.push_back(std::make_unique<comm::HeapRegistry>());
  }
  std::vector<comm::Communicator::Parts> all;
  all.reserve(static_cast<std::size_t>(size));
  for (std::int32_t rank = 0; rank < size; ++rank) {
    comm::Communicator::Parts parts = common_parts(options, rank, size, world.hub);
    const auto endpoint = [&](int which) {
      return comm::ShmTransport::create(shared->segments[which],
                                        {.index = static_cast<std::uint32_t>(rank), .ranks = ranks},
                                        *parts.fault,
                                        *shared->heaps[static_cast<std::size_t>(rank)])
          .value();
    };
    parts.collectives = endpoint(0);
    parts.point_to_point = endpoint(1);
    parts.allocate = [shared, rank](std::size_t bytes) { return shared->allocate(rank, bytes); };
    parts.memory = leaving(world.hub, parts.fault.get(), shared);
    all.push_back(std::move(parts));
  }
  for (comm::Communicator::Parts& parts : all) {
    world.ranks.push_back(make_communicator(std::move(parts), options));
  }
  return world;
}

// Over libfabric, by a provider that needs no hardware.
inline LocalWorld make_fabric_communicators(const std::string& provider, std::int32_t size,
                                            const WorldOptions& options = {}) {
  LocalWorld world{.network = nullptr, .hub = std::make_shared<FaultHub>(), .ranks = {}};
  const comm::FabricProvider found = find_fabric_provider(provider);
  auto collectives = open_fabric_endpoints(found, size);
  auto point_to_point = open_fabric_endpoints(found, size);
  std::vector<std::string> names;
  names.reserve(static_cast<std::size_t>(size));
  for (std::int32_t rank = 0; rank < size; ++rank) {
    names.push_back("rank " + std::to_string(rank));
  }
  for (std::int32_t rank = 0; rank < size; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    comm::Communicator::Parts parts = common_parts(options, rank, size, world.hub);
    const comm::FabricOptions fabric{.rank = rank, .secret = kFabricSecret, .names = names};
    parts.collectives = std::make_unique<comm::FabricTransport>(
        fabric, std::move(collectives[index]), *parts.fault);
    parts.point_to_point = std::make_unique<comm::FabricTransport>(
        fabric, std::move(point_to_point[index]), *parts.fault);
    parts.memory = leaving(world.hub, parts.fault.get(), 0);
    world.ranks.push_back(make_communicator(std::move(parts), options));
  }
  return world;
}

// Runs `body` on a thread for each rank, and returns when all have ended.
inline void on_all_ranks(LocalWorld& world, const std::function<void(comm::Communicator&)>& body) {
  std::vector<std::jthread> threads;
  threads.reserve(world.ranks.size());
  for (const auto& communicator : world.ranks) {
    threads.emplace_back([&body, &communicator] { body(*communicator); });
  }
}

// Each rank ends on a thread of its own, as processes do: one that ends completes what it issued,
// for which it may need the others.
inline void end_all_ranks(LocalWorld& world) {
  std::vector<std::jthread> threads;
  threads.reserve(world.ranks.size());
  for (auto& communicator : world.ranks) {
    threads.emplace_back([&communicator] { communicator.reset(); });
  }
  threads.clear();
  world.ranks.clear();
}

}  // namespace trainyard::testing
