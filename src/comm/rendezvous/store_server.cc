// SPDX-License-Identifier: Apache-2.0
#include "comm/rendezvous/store_server.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <list>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/thread.h"
#include "comm/rendezvous/frame.h"

namespace trainyard::comm {
namespace {

constexpr std::size_t kMaxConnections = 16384;
constexpr std::size_t kMaxUnread = 2 * kMaxFrame;  // of one connection's input

struct Connection {
  Fd fd;
  FrameReader reader = {};
  std::string unsent = {};
  std::optional<Fields> waits_for = {};  // keys
  bool is_over = false;
};

}  // namespace

struct StoreServer::State {
  TcpListener listener;
  Fd wake;
  std::list<Connection> connections;
  std::map<std::string, std::string> values;
  std::jthread thread;

  void serve(const std::stop_token& stop);
  void accept_all();
  void read(Connection& connection);
  void answer(Connection& connection, const Fields& request);
  void answer_waiting();
  static void send(Connection& connection);
  bool are_set(const Fields& keys) const {
    return std::ranges::all_of(keys, [&](const auto& key) { return values.contains(key); });
  }
};

void StoreServer::State::accept_all() {
  while (true) {
    auto fd = accept_one(listener.fd.get());
    if (!fd || !fd->is_open()) {
      return;
    }
    if (connections.size() < kMaxConnections) {
      connections.push_back({.fd = std::move(*fd)});
    }
  }
}

void StoreServer::State::read(Connection& connection) {
  std::array<char, 16384> buffer;
  std::size_t taken = 0;
  while (taken < kMaxUnread) {
    const ssize_t count = ::read(connection.fd.get(), buffer.data(), buffer.size());
    if (count <= 0) {
      connection.is_over = count == 0 || (errno != EAGAIN && errno != EINTR);
      break;
    }
    taken += static_cast<std::size_t>(count);
    connection.reader.feed({buffer.data(), static_cast<std::size_t>(count)});
  }
  while (true) {
    auto request = connection.reader.next();
    if (!request) {
      log_warning(fmt::format("rendezvous: a connection was closed: {}", request.error().message));
      // The other side learns the version of this one from the answer's own header.
      connection.unsent += encode_frame({"error", request.error().message});
      send(connection);
      connection.is_over = true;
      return;
    }
    if (!request->has_value()) {
      return;
    }
    answer(connection, **request);
  }
}

void StoreServer::State::answer(Connection& connection, const Fields& request) {
  if (request.size() == 3 && request[0] == "claim") {
    const auto& held = values.try_emplace(request[1], request[2]).first->second;
    connection.unsent += encode_frame({"value", held});
  } else if (request.size() == 2 && request[0] == "has") {
    connection.unsent += encode_frame({"value", values.contains(request[1]) ? "1" : "0"});
  } else if (!request.empty() && request[0] == "wait") {
    connection.waits_for = Fields(request.begin() + 1, request.end());
  } else {
    connection.unsent += encode_frame({"error", "no such request"});
  }
}

void StoreServer::State::answer_waiting() {
  for (Connection& connection : connections) {
    if (connection.waits_for && are_set(*connection.waits_for)) {
      Fields reply = {"values"};
      for (const std::string& key : *connection.waits_for) {
        reply.push_back(values.at(key));
      }
      connection.waits_for.reset();
      connection.unsent += encode_frame(reply);
    }
    send(connection);
  }
}

void StoreServer::State::send(Connection& connection) {
  while (!connection.unsent.empty()) {
    const ssize_t count = ::send(connection.fd.get(), connection.unsent.data(),
                                 connection.unsent.size(), MSG_NOSIGNAL);
    if (count < 0) {
      connection.is_over = connection.is_over || (errno != EAGAIN && errno != EINTR);
      return;
    }
    connection.unsent.erase(0, static_cast<std::size_t>(count));
  }
}

void StoreServer::State::serve(const std::stop_token& stop) {
  std::vector<pollfd> entries;
  while (!stop.stop_requested()) {
    entries.assign({{.fd = wake.get(), .events = POLLIN, .revents = 0},
                    {.fd = listener.fd.get(), .events = POLLIN, .revents = 0}});
    for (const Connection& connection : connections) {
      const short write = connection.unsent.empty() ? short{0} : short{POLLOUT};
      entries.push_back(
          {.fd = connection.fd.get(), .events = static_cast<short>(POLLIN | write), .revents = 0});
    }
    if (::poll(entries.data(), entries.size(), -1) < 0) {
      continue;
    }
    std::size_t index = 2;
    for (Connection& connection : connections) {
      if (entries[index++].revents != 0) {
        read(connection);
      }
    }
    if (entries[1].revents != 0) {
      accept_all();
    }
    answer_waiting();
    connections.remove_if([](const Connection& connection) { return connection.is_over; });
  }
}

StoreServer::StoreServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

StoreServer::~StoreServer() {
  state_->thread.request_stop();
  ::eventfd_write(state_->wake.get(), 1);
}

std::uint16_t StoreServer::port() const {
  return state_->listener.port;
}

Result<std::unique_ptr<StoreServer>> StoreServer::listen(const Endpoint& endpoint) {
  auto state = std::make_unique<State>();
  YARD_TRY(state->listener, listen_tcp(endpoint));
  state->wake = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!state->wake.is_open()) {
    return errno_error("make an event descriptor", errno);
  }
  state->thread = start_thread(
      "comm-store", [raw = state.get()](const std::stop_token& stop) { raw->serve(stop); });
  return std::unique_ptr<StoreServer>(new StoreServer(std::move(state)));
}

}  // namespace trainyard::comm
