// SPDX-License-Identifier: Apache-2.0
// An HTTP server on a free loopback port whose answers a test writes: for clients that must cope
// with servers which fail, cut, stall or lie.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "http/server.h"

namespace trainyard {

class ScriptedServer {
 public:
  struct Asked {
    http::Request request;
    std::string body;
  };
  // `number` counts requests from 1. The exchange may be answered, cut (started and left), or both.
  using Script = std::function<void(http::Exchange& exchange, const Asked& asked, int number)>;

  explicit ScriptedServer(Script script) : script_(std::move(script)) {
    auto server = http::Server::start({}, [this](std::unique_ptr<http::Exchange> exchange) {
      Asked asked{.request = exchange->request(), .body = {}};
      asked.body = exchange->read_all(std::size_t{64} << 20).value_or("");
      int number = 0;
      {
        const std::scoped_lock lock(mutex_);
        asked_.push_back(asked);
        number = static_cast<int>(asked_.size());
      }
      script_(*exchange, asked, number);
    });
    EXPECT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    port_ = server_->listen("127.0.0.1", 0, "test").value_or(0);
  }
  ~ScriptedServer() { server_->stop(std::chrono::seconds(5)); }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

  std::vector<Asked> asked() const {
    const std::scoped_lock lock(mutex_);
    return asked_;
  }

 private:
  Script script_;
  mutable std::mutex mutex_;
  std::vector<Asked> asked_;
  std::uint16_t port_ = 0;
  std::unique_ptr<http::Server> server_;
};

}  // namespace trainyard
