// SPDX-License-Identifier: Apache-2.0
// Ranks of one process that speak over libfabric, by providers that need no hardware.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "comm/transport/fabric/fabric_transport.h"

namespace trainyard::testing {

inline const std::string kFabricSecret = "of this world";

inline comm::FabricProvider find_fabric_provider(const std::string& name) {
  auto found = comm::FabricProvider::find(name, "127.0.0.1");
  YARD_CHECK(found.has_value(), found.error().message);
  return std::move(*found);
}

// Endpoints of all ranks, which know each other.
inline std::vector<std::unique_ptr<comm::FabricEndpoint>> open_fabric_endpoints(
    const comm::FabricProvider& provider, std::int32_t size) {
  std::vector<std::unique_ptr<comm::FabricEndpoint>> endpoints;
  std::vector<std::string> addresses;
  for (std::int32_t rank = 0; rank < size; ++rank) {
    auto endpoint = comm::FabricEndpoint::open(provider, static_cast<std::size_t>(size));
    YARD_CHECK(endpoint.has_value(), endpoint.error().message);
    addresses.push_back((*endpoint)->address());
    endpoints.push_back(std::move(*endpoint));
  }
  for (const auto& endpoint : endpoints) {
    const auto added = endpoint->add_peers(addresses);
    YARD_CHECK(added.has_value(), added.error().message);
  }
  for (const auto& endpoint : endpoints) {
    endpoint->forget_names();
  }
  return endpoints;
}

class FabricRanks {
 public:
  struct Rank {
    comm::Fault fault;
    std::unique_ptr<comm::FabricTransport> transport;
  };

  FabricRanks(const std::string& provider, std::int32_t size) {
    std::vector<std::string> names;
    names.reserve(static_cast<std::size_t>(size));
    for (std::int32_t rank = 0; rank < size; ++rank) {
      names.push_back("rank " + std::to_string(rank));
    }
    auto endpoints = open_fabric_endpoints(find_fabric_provider(provider), size);
    for (std::int32_t rank = 0; rank < size; ++rank) {
      auto& endpoint = endpoints[static_cast<std::size_t>(rank)];
      addresses_.push_back(endpoint->address());
      ranks_.push_back(std::make_unique<Rank>());
      at(rank).transport = std::make_unique<comm::FabricTransport>(
          comm::FabricOptions{.rank = rank, .secret = kFabricSecret, .names = names},
          std::move(endpoint), at(rank).fault);
    }
  }

  // All at once: who leaves waits for the others.
  ~FabricRanks() {
    std::vector<std::jthread> threads;
    threads.reserve(ranks_.size());
    for (const auto& rank : ranks_) {
      threads.emplace_back([&rank] { rank->transport.reset(); });
    }
  }
  FabricRanks(const FabricRanks&) = delete;
  FabricRanks& operator=(const FabricRanks&) = delete;

  Rank& at(std::int32_t rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  const std::string& address(std::int32_t rank) const {
    return addresses_[static_cast<std::size_t>(rank)];
  }
  void end(std::int32_t rank) { at(rank).transport.reset(); }

 private:
  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace trainyard::testing
