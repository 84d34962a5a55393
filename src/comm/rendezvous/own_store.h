// SPDX-License-Identifier: Apache-2.0
// Our own store as ranks use it that know nothing but an address: the process of rank 0 serves it
// there, on all addresses of its machine, and every rank is its client.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "base/result.h"
#include "comm/rendezvous/sockets.h"
#include "comm/rendezvous/store_client.h"
#include "comm/rendezvous/store_server.h"

namespace trainyard::comm {

class OwnStore {
 public:
  // Waits for the server, at most for `time`. kAlreadyExists when the port is taken on the machine
  // that is to serve; kInvalidArgument for port 0, which nobody else could know.
  static Result<std::unique_ptr<OwnStore>> open(const Endpoint& endpoint, bool serves,
                                                std::chrono::milliseconds time);

  RendezvousStore& store() { return *client_; }

  // After a failure: goes on serving until `clients`, this one among them, have taken their leave,
  // at most for `time`, for the others are to hear what is wrong and not that their store is gone,
  // those too who have not come yet.
  void linger(std::size_t clients, std::chrono::milliseconds time);

 private:
  OwnStore(std::unique_ptr<StoreServer> server, std::unique_ptr<StoreClient> client)
      : server_(std::move(server)), client_(std::move(client)) {}

  std::unique_ptr<StoreServer> server_;  // of rank 0
  std::unique_ptr<StoreClient> client_;
};

}  // namespace trainyard::comm
