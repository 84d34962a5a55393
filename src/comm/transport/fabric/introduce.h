// SPDX-License-Identifier: Apache-2.0
// How ranks learn each other's endpoints: through the store by which they found each other. Rank
// 0's choice of a provider holds for all; a rank that cannot follow tells the others why, so that
// they do not wait for it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "comm/rendezvous/join.h"
#include "comm/rendezvous/member.h"
#include "comm/rendezvous/store.h"
#include "comm/transport/fabric/endpoint.h"

namespace trainyard::comm {

// The address of this machine that an endpoint is bound to: the first that no other host has as
// well (a bridge that every node has alike), or the first.
std::string address_to_bind(const std::vector<DataAddress>& everyones, const Hosts& hosts,
                            std::size_t own);

// kExhausted: an endpoint that holds so many receives at once cannot hold those of the ranks of all
// other hosts.
Result<void> check_receives(std::size_t held, const Hosts& hosts, std::int32_t own);

struct Introduction {
  std::string world;  // name of the communicator
  std::int32_t rank = 0;
  std::string provider;
  Result<std::vector<std::string>> own;  // addresses of its endpoints, or why there are none
};

// Of all ranks, by rank. kConflict: a rank has another provider, or speaks another version.
Result<std::vector<std::vector<std::string>>> introduce(const Introduction& introduction,
                                                        const std::vector<Member>& members,
                                                        RendezvousStore& store,
                                                        std::chrono::milliseconds time);

struct FabricWorld {
  std::string name;
  std::int32_t rank = 0;
  std::string provider;
  std::string filter;  // what FI_PROVIDER says, for the error when it leaves the provider out
  std::uint32_t channels = 1;
  std::chrono::milliseconds time = std::chrono::minutes(5);
};
// This rank's endpoints, one for each channel, which know those of all ranks. Their names may be
// forgotten once all ranks have got so far.
Result<std::vector<std::unique_ptr<FabricEndpoint>>> open_endpoints(const FabricWorld& world,
                                                                    const Joined& joined,
                                                                    RendezvousStore& store);

}  // namespace trainyard::comm
