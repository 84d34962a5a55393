// SPDX-License-Identifier: Apache-2.0
#include "instance/remote_shell/acceptor.h"

#include <cerrno>

#include <poll.h>
#include <sys/socket.h>

#include "base/thread.h"

namespace trainyard::instance {
namespace {

constexpr int kStopMilliseconds = 100;

}  // namespace

Result<std::unique_ptr<Acceptor>> Acceptor::listen(Endpoint endpoint, std::string secret,
                                                   Handler handler) {
  std::unique_ptr<Acceptor> acceptor(
      new Acceptor(std::move(endpoint), std::move(secret), std::move(handler)));
  YARD_TRY(acceptor->listener_, listen_at(acceptor->endpoint_));
  acceptor->thread_ =
      start_thread("acceptor", [self = acceptor.get()](const auto& stop) { self->run(stop); });
  return acceptor;
}

Acceptor::~Acceptor() {
  thread_.request_stop();
  if (thread_.joinable()) {
    thread_.join();
  }
  for (Visitor& visitor : visitors_) {
    visitor.thread.request_stop();
  }
}

void Acceptor::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    pollfd ready = {listener_.get(), POLLIN, 0};
    if (poll(&ready, 1, kStopMilliseconds) <= 0) {
      continue;
    }
    // One that hung up in between is no error of ours.
    if (Fd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)); socket.is_open()) {
      admit(std::move(socket));
    }
  }
}

void Acceptor::admit(Fd socket) {
  visitors_.remove_if([](const Visitor& visitor) { return visitor.is_done->load(); });
  auto is_done = std::make_shared<std::atomic<bool>>(false);
  auto body = [this, is_done, fd = std::make_shared<Fd>(std::move(socket))](const auto& stop) {
    if (Result<Connection> peer = receive(std::move(*fd), secret_, stop)) {
      handler_(std::move(*peer), stop);
    }
    is_done->store(true);
  };
  visitors_.push_back({is_done, start_thread("visitor", std::move(body))});
}

}  // namespace trainyard::instance
