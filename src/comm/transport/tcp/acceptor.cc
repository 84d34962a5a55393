// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/tcp/acceptor.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

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
constexpr char kSeen = '!';                   // the byte of a rank that has seen the answer
constexpr milliseconds kConnectTime = std::chrono::seconds(3);  // of each address
constexpr milliseconds kFirstPatience{1000};                    // for an answer
constexpr milliseconds kMostPatience{8000};
constexpr milliseconds kLook{50};

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
    std::optional<Arrival> answered;  // knows the secret; the link is empty then

    int fd() const { return answered ? answered->fd.get() : link->fd(); }
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
  // True when the connection needs no more attention: it was taken, or is to be closed.
  bool attend(Unknown& one);
  bool greet(Unknown& one);
};

void Acceptor::State::serve(const std::stop_token& stop) {
  std::vector<pollfd> entries;
  while (!stop.stop_requested()) {
    entries.assign({{.fd = wake.get(), .events = POLLIN, .revents = 0},
                    {.fd = listener.fd.get(), .events = POLLIN, .revents = 0}});
    for (const Unknown& one : unknown) {
      entries.push_back({.fd = one.fd(), .events = POLLIN, .revents = 0});
    }
    const milliseconds limit = unknown.empty() ? milliseconds(-1) : kGreetingTime;
    ::poll(entries.data(), entries.size(), static_cast<int>(limit.count()));
    const auto now = steady_clock::now();
    for (std::size_t i = unknown.size(); i > 0; --i) {
      const bool has_news = entries[i + 1].revents != 0;
      if ((has_news && attend(unknown[i - 1])) || now > unknown[i - 1].end) {
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
      unknown.push_back({.link = std::make_unique<ControlLink>(std::move(*fd)),
                         .end = steady_clock::now() + kGreetingTime,
                         .answered = std::nullopt});
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
  if (!watch_idle(one.link->fd())) {
    return true;
  }
  one.link->send({"welcome"});
  one.answered = Arrival{*greeting, one.link->take_fd()};
  one.end = steady_clock::time_point::max();
  return false;
}

bool Acceptor::State::attend(Unknown& one) {
  if (!one.answered) {
    return greet(one);
  }
  char byte = 0;
  const ssize_t count = ::recv(one.fd(), &byte, 1, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
    return false;
  }
  if (count != 1 || byte != kSeen) {
    return true;
  }
  const std::uint32_t channel = one.answered->greeting.channel;
  // Told under the lock: who takes its callback back may then end.
  const MutexLock lock(mutex);
  arrived[channel].push_back(std::move(*one.answered));
  if (told[channel]) {
    told[channel]();
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

namespace {

// One try. kDeadline: it takes connections, but does not answer within `patience`.
Result<Fd> try_address(const Endpoint& endpoint, const Greeting& greeting, milliseconds patience,
                       const std::stop_token& stop) {
  auto fd = connect_tcp(endpoint, kConnectTime, false);
  if (!fd) {
    return Error{Code::kUnavailable, fd.error().message};
  }
  YARD_TRY(tune_tcp(fd->get()));
  YARD_TRY(watch_idle(fd->get()));
  ControlLink link(std::move(*fd));
  link.send(fields_of(greeting));
  const auto end = steady_clock::now() + patience;
  while (steady_clock::now() < end && !stop.stop_requested()) {
    const auto answer = link.wait(kLook);
    if (answer && answer->fields == Fields{"welcome"}) {
      Fd open = link.take_fd();
      if (::send(open.get(), &kSeen, 1, MSG_NOSIGNAL) != 1) {
        return Error{Code::kUnavailable, errno_error("send", errno).message};
      }
      return open;
    }
    if (answer || answer.error().code != Code::kDeadline) {
      return Error{Code::kUnavailable,
                   answer ? "another program answers there" : answer.error().message};
    }
  }
  return Error{Code::kDeadline, "no answer in time"};
}

}  // namespace

Result<Fd> open_data_connection(const std::vector<std::string>& addresses, std::uint16_t port,
                                const Greeting& greeting, const std::stop_token& stop) {
  for (milliseconds patience = kFirstPatience; true;
       patience = std::min(2 * patience, kMostPatience)) {
    std::string tried;
    bool is_silent = false;
    for (const std::string& address : addresses) {
      const Endpoint endpoint{address, port};
      auto fd = try_address(endpoint, greeting, patience, stop);
      if (fd) {
        return fd;
      }
      is_silent = is_silent || fd.error().code == Code::kDeadline;
      tried += fmt::format("{}{}: {}", tried.empty() ? "" : "; ", to_string(endpoint),
                           fd.error().message);
    }
    if (!is_silent || stop.stop_requested()) {
      return Error{Code::kUnavailable, fmt::format("rank {} cannot be reached: {}", greeting.to,
                                                   tried.empty() ? "it gave no address" : tried)};
    }
  }
}

}  // namespace trainyard::comm
