// SPDX-License-Identifier: Apache-2.0
// For tests only: a client that sends exact bytes, and a server with a handler on a free port.
#pragma once

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "http/server.h"

namespace trainyard::http {

using namespace std::chrono_literals;

inline constexpr auto kPatience = 10s;  // a test that waits longer has failed

// Waits for a condition that another thread brings about.
inline bool eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) {
      return false;
    }
    std::this_thread::yield();
  }
  return true;
}

class RawPeer {
 public:
  // `from`: the address of its own end; all of 127.0.0.0/8 are this machine's.
  explicit RawPeer(std::uint16_t port, const std::string& from = {})
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (sockaddr_in own{}; !from.empty()) {
      own.sin_family = AF_INET;
      EXPECT_EQ(::inet_pton(AF_INET, from.c_str(), &own.sin_addr), 1);
      EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<sockaddr*>(&own), sizeof own), 0);
    }
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) == 0;
    const int on = 1;
    ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }

  bool is_connected() const { return connected_; }
  int fd() const { return fd_.get(); }

  bool send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) {
        return false;
      }
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  // Everything up to and with `mark`; what came so far when the peer closes or patience ends.
  std::string read_until(std::string_view mark) {
    while (true) {
      if (const std::size_t at = seen_.find(mark); at != std::string::npos) {
        std::string text = seen_.substr(0, at + mark.size());
        seen_.erase(0, at + mark.size());
        return text;
      }
      if (!read_more()) {
        return std::exchange(seen_, {});
      }
    }
  }

  std::string read_exactly(std::size_t count) {
    while (seen_.size() < count && read_more()) {
    }
    std::string text = seen_.substr(0, count);
    seen_.erase(0, text.size());
    return text;
  }

  std::string read_to_end() {
    while (read_more()) {
    }
    return std::exchange(seen_, {});
  }

  // The head and the Content-Length body of one answer.
  std::string read_answer() {
    std::string answer = read_until("\r\n\r\n");
    const std::size_t at = answer.find("Content-Length: ");
    return at == std::string::npos ? answer
                                   : answer + read_exactly(std::stoul(answer.substr(at + 16)));
  }

  // True when the peer has closed and nothing more came.
  bool sees_end() { return read_to_end().empty() && ended_; }

  void close() { fd_.reset(); }

 private:
  bool read_more() {
    pollfd waiting{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    const auto patience = std::chrono::milliseconds(kPatience);
    if (::poll(&waiting, 1, static_cast<int>(patience.count())) <= 0) {
      return false;
    }
    char buffer[16'384];
    const ssize_t got = ::recv(fd_.get(), buffer, sizeof buffer, 0);
    ended_ = got <= 0;
    if (got > 0) {
      seen_.append(buffer, static_cast<std::size_t>(got));
    }
    return got > 0;
  }

  Fd fd_;
  bool connected_ = false;
  bool ended_ = false;
  std::string seen_;
};

struct TestServer {
  explicit TestServer(Handler handler, const ServerOptions& options = {}) {
    auto started = Server::start(options, std::move(handler));
    EXPECT_TRUE(started);
    server = std::move(*started);
    auto bound = server->listen("127.0.0.1", 0, "test");
    EXPECT_TRUE(bound);
    port = bound ? *bound : std::uint16_t{0};
  }

  std::string url(std::string_view path = "/") const {
    return "http://127.0.0.1:" + std::to_string(port) + std::string(path);
  }

  std::unique_ptr<Server> server;
  std::uint16_t port = 0;
};

// Answers every request with its method, path and whole body.
inline void echo(std::unique_ptr<Exchange> exchange) {
  auto body = exchange->read_all(std::size_t{1} << 20);
  const Request& request = exchange->request();
  exchange->respond(
      {.status = body ? 200 : 400,
       .headers = {},
       .body = request.method + " " + request.path + " " + (body ? *body : body.error().message)});
}

}  // namespace trainyard::http
