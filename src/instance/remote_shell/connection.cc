// SPDX-License-Identifier: Apache-2.0
#include "instance/remote_shell/connection.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/random.h"
#include "instance/remote_shell/handshake.h"

namespace trainyard::instance {
namespace {

constexpr int kBacklog = 1024;
constexpr Duration kStopInterval{100};
constexpr std::size_t kChunk = std::size_t{64} << 10;

void set_option(int fd, int level, int name, int value) {
  // A connection without these still works, only slower or with a later end.
  static_cast<void>(setsockopt(fd, level, name, &value, sizeof value));
}

Result<sockaddr_in> socket_address(const Endpoint& endpoint) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(endpoint.port);
  if (inet_pton(AF_INET, endpoint.address.c_str(), &address.sin_addr) != 1) {
    return Error{Code::kInvalidArgument, "'" + endpoint.address + "' is not an IPv4 address"};
  }
  return address;
}

std::string nonce() {
  std::string bytes(kNonceBytes, '\0');
  SystemRandom().fill(std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

Error gone() {
  return {Code::kUnavailable, "the peer has gone"};
}

Result<std::string> expect(Connection& connection, FrameKind kind, const std::stop_token& stop) {
  YARD_TRY(Frame frame, connection.next(kHandshakePatience, stop));
  if (frame.kind != kind) {
    return Error{Code::kDenied, "a peer does not speak our protocol"};
  }
  return std::move(frame.payload);
}

}  // namespace

Connection::Connection(Fd socket) : socket_(std::move(socket)) {
  constexpr int kProbes = 4;
  constexpr int kInterval = 2;  // seconds
  const int fd = socket_.get();
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, kInterval);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, kInterval);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(kPeerSilence.count()));
}

Result<void> Connection::send(FrameKind kind, std::string_view payload) {
  const std::string bytes = encode_frame(kind, payload);
  for (std::string_view rest = bytes; !rest.empty();) {
    const ssize_t sent = ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno != EINTR) {
      return gone();
    }
  }
  return {};
}

Result<bool> Connection::fill() {
  std::array<char, kChunk> chunk;
  const ssize_t got = recv(socket_.get(), chunk.data(), chunk.size(), MSG_DONTWAIT);
  if (got > 0) {
    reader_.push({chunk.data(), static_cast<std::size_t>(got)});
    return true;
  }
  return got < 0 && (errno == EAGAIN || errno == EINTR);
}

Result<Frame> Connection::next(Duration time, const std::stop_token& stop) {
  const auto deadline = std::chrono::steady_clock::now() + time;
  while (true) {
    YARD_TRY(std::optional<Frame> frame, reader_.next());
    if (frame) {
      return std::move(*frame);
    }
    if (stop.stop_requested()) {
      return Error{Code::kCancelled, "told to stop"};
    }
    const auto left = std::chrono::ceil<Duration>(deadline - std::chrono::steady_clock::now());
    if (left <= Duration(0)) {
      return Error{Code::kDeadline, "the peer says nothing"};
    }
    pollfd ready = {socket_.get(), POLLIN, 0};
    const Duration step = stop.stop_possible() ? std::min(left, kStopInterval) : left;
    if (poll(&ready, 1, static_cast<int>(step.count())) <= 0) {
      continue;
    }
    YARD_TRY(const bool open, fill());
    if (!open) {
      return gone();
    }
  }
}

Result<Fd> connect_to(const Endpoint& endpoint) {
  YARD_TRY(const sockaddr_in address, socket_address(endpoint));
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) {
    return errno_error("socket", errno);
  }
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return Error{Code::kUnavailable, errno_error("connect to " + endpoint.address, errno).message};
  }
  return socket;
}

Result<Connection> dial(const Endpoint& endpoint, std::string_view secret) {
  YARD_TRY(Fd socket, connect_to(endpoint));
  Connection connection(std::move(socket));
  YARD_TRY(const std::string hello, expect(connection, FrameKind::kHello, {}));
  const std::string own = nonce();
  YARD_TRY(const std::string proof, answer_hello(secret, hello, own));
  YARD_TRY(connection.send(FrameKind::kProof, proof));
  const Result<std::string> welcome = expect(connection, FrameKind::kWelcome, {});
  if (!welcome && welcome.error().code == Code::kUnavailable) {
    return Error{Code::kDenied, endpoint.address + " refuses this attempt's secret"};
  }
  YARD_TRY(welcome);
  YARD_TRY(check_welcome(secret, hello, own, *welcome));
  return connection;
}

Result<Connection> receive(Fd socket, std::string_view secret, const std::stop_token& stop) {
  Connection connection(std::move(socket));
  const std::string own = nonce();
  YARD_TRY(connection.send(FrameKind::kHello, own));
  YARD_TRY(const std::string proof, expect(connection, FrameKind::kProof, stop));
  YARD_TRY(const std::string welcome, answer_proof(secret, own, proof));
  YARD_TRY(connection.send(FrameKind::kWelcome, welcome));
  return connection;
}

Result<Fd> listen_at(Endpoint& endpoint) {
  YARD_TRY(sockaddr_in address, socket_address(endpoint));
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) {
    return errno_error("socket", errno);
  }
  // The attempt before on this machine may have left connections in TIME_WAIT.
  set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (bind(socket.get(), any, size) != 0 || listen(socket.get(), kBacklog) != 0 ||
      getsockname(socket.get(), any, &size) != 0) {
    return errno_error("listen at " + endpoint.address + ":" + std::to_string(endpoint.port),
                       errno);
  }
  endpoint.port = ntohs(address.sin_port);
  return socket;
}

}  // namespace trainyard::instance
