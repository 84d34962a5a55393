// SPDX-License-Identifier: Apache-2.0
// Listens once at one address and gives each peer that knows the secret a thread of its own. Peers
// that do not know it get nothing. Destroying it hangs up and joins.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>

#include "instance/remote_shell/connection.h"

namespace trainyard::instance {

class Acceptor {
 public:
  // Called on the connection's thread; it must return soon after the stop is requested.
  using Handler = std::function<void(Connection, const std::stop_token&)>;

  static Result<std::unique_ptr<Acceptor>> listen(Endpoint endpoint, std::string secret,
                                                  Handler handler);
  const Endpoint& endpoint() const { return endpoint_; }
  ~Acceptor();

 private:
  struct Visitor {
    std::shared_ptr<std::atomic<bool>> is_done;
    std::jthread thread;
  };

  Acceptor(Endpoint endpoint, std::string secret, Handler handler)
      : endpoint_(std::move(endpoint)), secret_(std::move(secret)), handler_(std::move(handler)) {}
  void run(const std::stop_token& stop);
  void admit(Fd socket);

  Endpoint endpoint_;
  std::string secret_;
  Handler handler_;
  Fd listener_;
  std::list<Visitor> visitors_;  // of the accepting thread
  std::jthread thread_;
};

}  // namespace trainyard::instance
