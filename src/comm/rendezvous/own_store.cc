// SPDX-License-Identifier: Apache-2.0
#include "comm/rendezvous/own_store.h"

#include <thread>
#include <utility>

namespace trainyard::comm {
namespace {

constexpr std::chrono::milliseconds kPause{10};

}  // namespace

Result<std::unique_ptr<OwnStore>> OwnStore::open(const Endpoint& endpoint, bool serves,
                                                 std::chrono::milliseconds time) {
  if (endpoint.port == 0) {
    return Error{Code::kInvalidArgument, "ranks meet at a port that all of them know: " +
                                             to_string(endpoint) + " has none"};
  }
  std::unique_ptr<StoreServer> server;
  if (serves) {
    auto listening = StoreServer::listen({.host = "", .port = endpoint.port});
    if (!listening) {
      return listening.error().in("serving the place where ranks meet");
    }
    server = std::move(*listening);
  }
  YARD_TRY(auto client, StoreClient::connect(endpoint, time));
  return std::unique_ptr<OwnStore>(new OwnStore(std::move(server), std::move(client)));
}

void OwnStore::linger(std::size_t clients, std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  client_.reset();
  while (server_ != nullptr && server_->gone() < clients &&
         std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace trainyard::comm
