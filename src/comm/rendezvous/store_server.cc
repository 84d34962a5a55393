// SPDX-License-Identifier: Apache-2.0
#include "comm/rendezvous/store_server.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "base/log.h"
#include "base/thread.h"
#include "comm/rendezvous/control_link.h"
#include "comm/rendezvous/doorstep.h"
#include "comm/rendezvous/forks.h"

namespace trainyard::comm {
namespace {

constexpr std::size_t kMaxConnections = 16384;
constexpr std::size_t kMaxFirstRequest = std::size_t{1} << 20;

struct Connection {
  ControlLink link;
  std::optional<Fields> waits_for = {};  // keys
  bool is_over = false;
};

}  // namespace

struct StoreServer::State {
  Limits limits;
  TcpListener listener;
  Fd wake;
  KeptFromChildren kept;
  std::optional<Doorstep> doorstep;
  std::list<Connection> connections;
  std::atomic<std::size_t> gone = 0;  // clients that took their leave
  std::map<std::string, std::string> values;
  std::size_t bytes = 0;  // of keys and values
  std::jthread thread;

  void serve(const std::stop_token& stop);
  void let_in(Doorstep::Guest& guest);
  void read(Connection& connection);
  void answer(Connection& connection, const Fields& request);
  Fields claim(const std::string& key, const std::string& value);
  void answer_waiting();
  bool are_set(const Fields& keys) const {
    return std::ranges::all_of(keys, [&](const auto& key) { return values.contains(key); });
  }
};

void StoreServer::State::let_in(Doorstep::Guest& guest) {
  if (connections.size() < kMaxConnections) {
    guest.link.trust();
    connections.push_back({.link = std::move(guest.link)});
    answer(connections.back(), guest.greeting);
  }
}

void StoreServer::State::read(Connection& connection) {
  std::vector<ControlMessage> requests;
  const Result<void> status = connection.link.receive(requests);
  for (const ControlMessage& request : requests) {
    answer(connection, request.fields);
  }
  connection.is_over = !status;
  if (!status && status.error().code != Code::kUnavailable) {
    log_warning(fmt::format("rendezvous: a connection was closed: {}", status.error().message));
  }
}

Fields StoreServer::State::claim(const std::string& key, const std::string& value) {
  const auto held = values.find(key);
  if (held != values.end()) {
    return {"value", held->second};
  }
  const std::size_t more = key.size() + value.size();
  if (values.size() == limits.keys || more > limits.bytes - bytes) {
    return {"error", "the store is full"};
  }
  bytes += more;
  values.emplace(key, value);
  return {"value", value};
}

void StoreServer::State::answer(Connection& connection, const Fields& request) {
  if (request.size() == 3 && request[0] == "claim") {
    connection.link.send(claim(request[1], request[2]));
  } else if (request.size() == 2 && request[0] == "has") {
    connection.link.send({"value", values.contains(request[1]) ? "1" : "0"});
  } else if (!request.empty() && request[0] == "wait") {
    connection.waits_for = Fields(request.begin() + 1, request.end());
  } else if (request.size() == 1 && request[0] == "leave") {
    ++gone;
  } else {
    connection.link.send({"error", "no such request"});
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
      connection.link.send(reply);
    }
    connection.link.flush();
  }
}

void StoreServer::State::serve(const std::stop_token& stop) {
  std::vector<pollfd> entries;
  while (!stop.stop_requested()) {
    entries.assign({{.fd = wake.get(), .events = POLLIN, .revents = 0}});
    doorstep->list(entries);
    const std::size_t before = entries.size();
    for (const Connection& connection : connections) {
      const short write = connection.link.has_unsent() ? short{POLLOUT} : short{0};
      entries.push_back(
          {.fd = connection.link.fd(), .events = static_cast<short>(POLLIN | write), .revents = 0});
    }
    if (::poll(entries.data(), entries.size(), static_cast<int>(doorstep->patience().count())) <
        0) {
      continue;
    }
    std::size_t index = before;
    for (Connection& connection : connections) {
      if (entries[index++].revents != 0) {
        read(connection);
      }
    }
    for (Doorstep::Guest& guest : doorstep->look(std::span(entries).first(before).subspan(1))) {
      let_in(guest);
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

std::size_t StoreServer::gone() const {
  return state_->gone;
}

std::uint16_t StoreServer::port() const {
  return state_->listener.port;
}

Result<std::unique_ptr<StoreServer>> StoreServer::listen(const Endpoint& endpoint) {
  return listen(endpoint, Limits());
}

Result<std::unique_ptr<StoreServer>> StoreServer::listen(const Endpoint& endpoint,
                                                         const Limits& limits) {
  auto state = std::make_unique<State>();
  state->limits = limits;
  YARD_TRY(state->listener, listen_tcp(endpoint));
  state->kept = KeptFromChildren(state->listener.fd.get());
  state->doorstep.emplace(state->listener.fd.get(), kMaxFirstRequest);
  state->wake = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!state->wake.is_open()) {
    return errno_error("make an event descriptor", errno);
  }
  state->thread = start_thread(
      "comm-store", [raw = state.get()](const std::stop_token& stop) { raw->serve(stop); });
  return std::unique_ptr<StoreServer>(new StoreServer(std::move(state)));
}

}  // namespace trainyard::comm
