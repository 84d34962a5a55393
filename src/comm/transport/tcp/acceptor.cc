// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/tcp/acceptor.h"

#include <algorithm>
#include <cerrno>
#include <map>

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/text.h"
#include "base/thread.h"
#include "comm/rendezvous/control_link.h"

namespace trainyard::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kGreetingTime = std::chrono::seconds(10);
constexpr std::size_t kMaxUnknown = 4096;
constexpr std::int64_t kMaxConnections = 64;  // of one rank to another

Fields fields_of(const Greeting& greeting) {
  return {"data",
          greeting.secret,
          std::to_string(greeting.from),
          std::to_string(greeting.to),
          std::to_string(greeting.channel),
          std::to_string(greeting.index),
          std::to_string(greeting.count)};
}

Result<Greeting> greeting_of(const Fields& fields) {
  if (fields.size() != 7 || fields[0] != "data") {
    return Error{Code::kCorrupt, "this is no greeting"};
  }
  YARD_TRY(const std::int64_t from, parse_int(fields[2]));
  YARD_TRY(const std::int64_t to, parse_int(fields[3]));
  YARD_TRY(const std::int64_t channel, parse_int(fields[4]));
  YARD_TRY(const std::int64_t index, parse_int(fields[5]));
  YARD_TRY(const std::int64_t count, parse_int(fields[6]));
  if (index < 0 || index >= count || count > kMaxConnections) {
    return Error{Code::kCorrupt, "this is no greeting"};
  }
  return Greeting{.secret = fields[1],
                  .from = static_cast<std::int32_t>(from),
                  .to = static_cast<std::int32_t>(to),
                  .channel = static_cast<std::uint32_t>(channel),
                  .index = static_cast<std::uint32_t>(index),
                  .count = static_cast<std::uint32_t>(count)};
}

}  // namespace

struct Acceptor::State {
  struct Unknown {
    std::unique_ptr<ControlLink> link;
    steady_clock::time_point end;
  };

  TcpListener listener;
  std::string secret;
  std::int32_t rank = 0;
  Fd wake;
  std::vector<Unknown> unknown;

  Mutex mutex;
  std::map<std::uint32_t, std::vector<Arrival>> arrived GUARDED_BY(mutex);
  std::map<std::uint32_t, std::function<void()>> told GUARDED_BY(mutex);
  std::jthread thread;

  void serve(const std::stop_token& stop);
  void accept_all();
  // True when the connection needs no more attention: it was taken, or closed.
  bool greet(Unknown& one);
};

void Acceptor::State::serve(const std::stop_token& stop) {
  std::vector<pollfd> entries;
  while (!stop.stop_requested()) {
    entries.assign({{.fd = wake.get(), .events = POLLIN, .revents = 0},
                    {.fd = listener.fd.get(), .events = POLLIN, .revents = 0}});
    for (const Unknown& one : unknown) {
      entries.push_back({.fd = one.link->fd(), .events = POLLIN, .revents = 0});
    }
    const milliseconds limit = unknown.empty() ? milliseconds(-1) : kGreetingTime;
    ::poll(entries.data(), entries.size(), static_cast<int>(limit.count()));
    const auto now = steady_clock::now();
    for (std::size_t i = unknown.size(); i > 0; --i) {
      const bool has_news = entries[i + 1].revents != 0;
      if ((has_news && greet(unknown[i - 1])) || now > unknown[i - 1].end) {
        unknown.erase(unknown.begin() + static_cast<std::ptrdiff_t>(i - 1));
      }
    }
    accept_all();
  }
}

void Acceptor::State::accept_all() {
  while (true) {
    auto fd = accept_one(listener.fd.get());
    if (!fd || !fd->is_open()) {
      return;
    }
    if (unknown.size() < kMaxUnknown) {
      unknown.push_back(
          {std::make_unique<ControlLink>(std::move(*fd)), steady_clock::now() + kGreetingTime});
    }
  }
}

bool Acceptor::State::greet(Unknown& one) {
  std::vector<ControlMessage> messages;
  const Result<void> status = one.link->receive(messages);
  if (messages.empty()) {
    if (!status && status.error().code != Code::kUnavailable) {
      log_warning("comm: a data connection was closed: " + status.error().message);
    }
    return !status;
  }
  const auto greeting = greeting_of(messages.front().fields);
  if (!greeting || !equal_in_constant_time(greeting->secret, secret) || greeting->to != rank) {
    return true;
  }
  one.link->send({"welcome"});
  std::function<void()> tell;
  {
    const MutexLock lock(mutex);
    arrived[greeting->channel].push_back({*greeting, one.link->take_fd()});
    tell = told[greeting->channel];
  }
  if (tell) {
    tell();
  }
  return true;
}

Acceptor::Acceptor(TcpListener listener, std::string secret, std::int32_t rank)
    : state_(std::make_unique<State>()) {
  state_->listener = std::move(listener);
  state_->secret = std::move(secret);
  state_->rank = rank;
  state_->wake = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  state_->thread =
      start_thread(fmt::format("comm-accept-{}", rank),
                   [state = state_.get()](const std::stop_token& stop) { state->serve(stop); });
}

Acceptor::~Acceptor() {
  state_->thread.request_stop();
  ::eventfd_write(state_->wake.get(), 1);
}

std::uint16_t Acceptor::port() const {
  return state_->listener.port;
}

void Acceptor::on_arrival(std::uint32_t channel, std::function<void()> told) {
  const MutexLock lock(state_->mutex);
  state_->told[channel] = std::move(told);
}

std::vector<Arrival> Acceptor::take(std::uint32_t channel) {
  const MutexLock lock(state_->mutex);
  return std::exchange(state_->arrived[channel], {});
}

Result<Fd> open_data_connection(const std::vector<std::string>& addresses, std::uint16_t port,
                                const Greeting& greeting, milliseconds time) {
  std::string tried;
  const auto note = [&](const std::string& address, const Error& error) {
    tried += fmt::format("{}{}: {}", tried.empty() ? "" : "; ", to_string(Endpoint{address, port}),
                         error.message);
  };
  for (const std::string& address : addresses) {
    auto fd = connect_tcp({address, port}, time, false);
    if (!fd) {
      note(address, fd.error());
      continue;
    }
    YARD_TRY(tune_tcp(fd->get(), kSilence));
    ControlLink link(std::move(*fd));
    link.send(fields_of(greeting));
    const auto answer = link.wait(time);
    if (answer && answer->fields == Fields{"welcome"}) {
      return link.take_fd();
    }
    note(address, answer ? Error{Code::kCorrupt, "another program answers there"} : answer.error());
  }
  return Error{Code::kUnavailable, fmt::format("rank {} cannot be reached: {}", greeting.to,
                                               tried.empty() ? "it gave no address" : tried)};
}

}  // namespace trainyard::comm
