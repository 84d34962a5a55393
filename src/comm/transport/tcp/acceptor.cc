// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/tcp/acceptor.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <list>
#include <map>
#include <span>
#include <thread>
#include <utility>

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
#include "comm/rendezvous/doorstep.h"
#include "comm/rendezvous/forks.h"

namespace trainyard::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

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
  TcpListener listener;
  KeptFromChildren kept;
  std::string secret;
  std::int32_t rank = 0;
  Fd wake;
  Doorstep doorstep;
  std::list<Arrival> answered;  // they know the secret, and have not seen the answer yet

  Mutex mutex;
  std::map<std::uint32_t, std::vector<Arrival>> arrived GUARDED_BY(mutex);
  std::map<std::uint32_t, std::function<void()>> told GUARDED_BY(mutex);
  std::jthread thread;

  void serve(const std::stop_token& stop);
  void greet(Doorstep::Guest& guest);
  // Whether it still has not seen the answer: it was handed on otherwise, or is to be closed.
  bool waits(Arrival& one);

  State(TcpListener from, std::string of_world, std::int32_t own)
      : listener(std::move(from)),
        kept(listener.fd.get()),
        secret(std::move(of_world)),
        rank(own),
        wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        doorstep(listener.fd.get()) {}
};

void Acceptor::State::serve(const std::stop_token& stop) {
  std::vector<pollfd> entries;
  while (!stop.stop_requested()) {
    entries.assign({{.fd = wake.get(), .events = POLLIN, .revents = 0}});
    doorstep.list(entries);
    const std::size_t before = entries.size();
    for (const Arrival& one : answered) {
      entries.push_back({.fd = one.fd.get(), .events = POLLIN, .revents = 0});
    }
    if (::poll(entries.data(), entries.size(), static_cast<int>(doorstep.patience().count())) < 0) {
      continue;
    }
    std::size_t index = before;
    for (auto one = answered.begin(); one != answered.end();) {
      const bool stays = entries[index++].revents == 0 || waits(*one);
      one = stays ? std::next(one) : answered.erase(one);
    }
    for (Doorstep::Guest& guest : doorstep.look(std::span(entries).first(before).subspan(1))) {
      greet(guest);
    }
  }
}

// Who knows the secret may take his time from here: he may be stopped.
void Acceptor::State::greet(Doorstep::Guest& guest) {
  const auto greeting = greeting_of(guest.greeting);
  if (!greeting || !equal_in_constant_time(greeting->secret, secret) || greeting->to != rank ||
      !watch_idle(guest.link.fd())) {
    return;
  }
  guest.link.send({"welcome"});
  answered.push_back(Arrival{*greeting, guest.link.take_fd()});
}

bool Acceptor::State::waits(Arrival& one) {
  char byte = 0;
  const ssize_t count = ::recv(one.fd.get(), &byte, 1, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
    return true;
  }
  if (count != 1 || byte != kSeen) {
    return false;
  }
  const std::uint32_t channel = one.greeting.channel;
  // Told under the lock: who takes its callback back may then end.
  const MutexLock lock(mutex);
  arrived[channel].push_back(std::move(one));
  if (told[channel]) {
    told[channel]();
  }
  return false;
}

Acceptor::Acceptor(TcpListener listener, std::string secret, std::int32_t rank)
    : state_(std::make_unique<State>(std::move(listener), std::move(secret), rank)) {
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

// One try. kDeadline: it takes connections, but does not answer within `patience`. kNotFound: its
// host does not answer.
Result<PrivateFd> try_address(const Endpoint& endpoint, const Greeting& greeting,
                              milliseconds patience, const std::stop_token& stop) {
  auto fd = connect_tcp(endpoint, kConnectTime, false);
  if (!fd) {
    const bool is_away = fd.error().code == Code::kDeadline;
    return Error{is_away ? Code::kNotFound : Code::kUnavailable, fd.error().message};
  }
  YARD_TRY(tune_tcp(fd->get()));
  YARD_TRY(watch_idle(fd->get()));
  ControlLink link(std::move(*fd));
  link.send(fields_of(greeting));
  const auto end = steady_clock::now() + patience;
  while (steady_clock::now() < end && !stop.stop_requested()) {
    const auto answer = link.wait(kLook);
    if (answer && answer->fields == Fields{"welcome"}) {
      PrivateFd open = link.take_fd();
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

Result<PrivateFd> open_data_connection(const std::vector<std::string>& addresses,
                                       std::uint16_t port, const Greeting& greeting,
                                       const std::stop_token& stop) {
  const auto give_up = steady_clock::now() + kSilence;
  for (milliseconds patience = kFirstPatience; true;
       patience = std::min(2 * patience, kMostPatience)) {
    std::string tried;
    bool is_silent = false;
    bool is_away = false;
    for (const std::string& address : addresses) {
      const Endpoint endpoint{address, port};
      auto fd = try_address(endpoint, greeting, patience, stop);
      if (fd) {
        return fd;
      }
      is_silent = is_silent || fd.error().code == Code::kDeadline;
      is_away = is_away || fd.error().code == Code::kNotFound;
      tried += fmt::format("{}{}: {}", tried.empty() ? "" : "; ", to_string(endpoint),
                           fd.error().message);
    }
    is_away = is_away && steady_clock::now() < give_up;  // no longer
    if ((!is_silent && !is_away) || stop.stop_requested()) {
      return Error{Code::kUnavailable, fmt::format("rank {} cannot be reached: {}", greeting.to,
                                                   tried.empty() ? "it gave no address" : tried)};
    }
    if (!is_silent) {
      std::this_thread::sleep_for(kLook);
    }
  }
}

}  // namespace trainyard::comm
