// SPDX-License-Identifier: Apache-2.0
// A rank's view of the store that store_server.h serves. One thread at a time.
#pragma once

#include <memory>

#include "base/fd.h"
#include "comm/rendezvous/frame.h"
#include "comm/rendezvous/sockets.h"
#include "comm/rendezvous/store.h"

namespace trainyard::comm {

class StoreClient final : public RendezvousStore {
 public:
  // Waits for the server to listen, at most for `time`.
  static Result<std::unique_ptr<StoreClient>> connect(const Endpoint& endpoint,
                                                      std::chrono::milliseconds time);
  ~StoreClient() override;  // takes its leave
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  Result<std::string> claim(const std::string& key, const std::string& value) override;
  // After a kDeadline the next call makes a new connection.
  Result<std::vector<std::string>> wait_for(const std::vector<std::string>& keys,
                                            std::chrono::milliseconds time) override;
  Result<bool> has(const std::string& key) override;
  std::string where() const override { return to_string(endpoint_); }

 private:
  StoreClient(Endpoint endpoint, Fd fd) : endpoint_(std::move(endpoint)), fd_(std::move(fd)) {}
  Result<Fields> ask(const Fields& request, std::chrono::milliseconds time);
  Result<void> reconnect();

  Endpoint endpoint_;
  Fd fd_;
  FrameReader reader_;
};

}  // namespace trainyard::comm
