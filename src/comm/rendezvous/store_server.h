// SPDX-License-Identifier: Apache-2.0
// Our own rendezvous store, for ranks that have no PyTorch: one thread that serves set-once keys
// over TCP (frame.h). Lives in the process of rank 0. Foreign bytes on its port close their
// connection and nothing else; who says nothing is sent away (doorstep.h). What it keeps is
// bounded: a claim of more is answered with an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "comm/rendezvous/sockets.h"

namespace trainyard::comm {

class StoreServer {
 public:
  // What the keys of the largest world need, several times.
  struct Limits {
    std::size_t keys = std::size_t{1} << 18;
    std::size_t bytes = std::size_t{1} << 28;
  };

  // Port 0: the kernel picks one. kAlreadyExists when the port is taken.
  static Result<std::unique_ptr<StoreServer>> listen(const Endpoint& endpoint);
  static Result<std::unique_ptr<StoreServer>> listen(const Endpoint& endpoint,
                                                     const Limits& limits);
  ~StoreServer();  // closes all connections

  std::uint16_t port() const;
  std::size_t gone() const;  // clients that took their leave

 private:
  struct State;
  explicit StoreServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace trainyard::comm
