// SPDX-License-Identifier: Apache-2.0
// One reliable-datagram endpoint of libfabric (FI_EP_RDM) with what it needs: domain, address
// vector, completion queue, registered memory. Tagged messages go out of and into memory that it
// gave (allocate()), so that what a provider wants to have registered is, once; and no provider
// ever touches memory of the user's, which may be gone after a fault while a network card still
// works. Used by one thread at a time. Nothing blocks but wait().
//
// Nothing of libfabric's own headers shows here.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "comm/transport/fabric/provider.h"

namespace trainyard::comm {

// Memory for messages; goes with the endpoint.
struct FabricMemory {
  std::span<std::byte> bytes;
  void* description = nullptr;  // of its registration, where the provider wants one
};

// One send or receive under way. The first bytes belong to the provider meanwhile; it must stay
// where it is until its completion came, or the endpoint has ended.
struct FabricRequest {
  alignas(std::max_align_t) std::array<std::byte, 64> context = {};
};

struct Completion {
  FabricRequest* request = nullptr;
  std::size_t bytes = 0;   // of a receive
  std::string error = {};  // empty: it went well
};

class FabricEndpoint {
 public:
  // For as many peers, itself included.
  static Result<std::unique_ptr<FabricEndpoint>> open(const FabricProvider& provider,
                                                      std::size_t peers);
  ~FabricEndpoint();  // what is under way ends without a completion

  // Where others reach it: bytes that mean something to the provider only.
  const std::string& address() const;
  // By rank. Others must have opened theirs.
  Result<void> add_peers(const std::vector<std::string>& addresses);
  // No other rank will look for this endpoint any more: its names, if it has any, are taken away.
  void forget_names();

  std::size_t max_message() const;
  std::size_t max_receives() const;  // that may wait at once
  Result<FabricMemory> allocate(std::size_t bytes);

  // False when it cannot be taken now: poll(), and try again. `memory` is a part of what allocate()
  // gave, or empty; `description` that of the whole.
  Result<bool> try_send(std::int32_t peer, std::uint64_t tag, const FabricMemory& memory,
                        FabricRequest& request);
  Result<bool> try_receive(std::uint64_t tag, const FabricMemory& memory, FabricRequest& request);
  // Moves what can be moved, and appends what is complete.
  Result<void> poll(std::vector<Completion>& completions);
  // Until something may have come, `fd` can be read, or the time is over.
  void wait(int fd, std::chrono::microseconds limit);

  struct State;
  explicit FabricEndpoint(std::unique_ptr<State> state);

 private:
  std::unique_ptr<State> state_;
};

}  // namespace trainyard::comm
