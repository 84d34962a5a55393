// SPDX-License-Identifier: Apache-2.0
#include "http/server.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/socket_base.hpp>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/log.h"
#include "http/internal/connection.h"
#include "http/internal/core.h"
#include "http/internal/tls_context.h"

namespace trainyard::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Acceptor = asio::basic_socket_acceptor<tcp, asio::io_context::executor_type>;

// When descriptors run out, accepting again at once would spin.
constexpr Duration kAcceptPause{50};
// An idle connection that is ended is gone within microseconds.
constexpr Duration kEvictionPause{1};
constexpr Duration kComplaintPause{60'000};

Error listen_error(const boost::system::error_code& ec, const tcp::endpoint& at) {
  const std::string place = at.address().to_string() + " port " + std::to_string(at.port());
  Error error = errno_error("cannot listen on " + place, ec.value());
  if (ec == asio::error::address_in_use) {
    error.code = Code::kConflict;
  }
  return error;
}

// No delay: an answer is one send. Probes: a held long poll learns within a minute that its peer's
// machine has vanished.
void set_options(int fd) {
  const auto set = [fd](int level, int name, int value) {
    ::setsockopt(fd, level, name, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

// sendfile(2) to a peer that has gone raises SIGPIPE, which would end the process, and has no flag
// against it. An own handler of the process stays.
void ignore_broken_pipes() {
  struct sigaction current {};
  if (::sigaction(SIGPIPE, nullptr, &current) == 0 && current.sa_handler == SIG_DFL) {
    std::signal(SIGPIPE, SIG_IGN);
  }
}

// One bound address. The mutex guards the acceptor: it accepts on the loop and is closed anywhere.
class Listener : public std::enable_shared_from_this<Listener> {
 public:
  // `core` outlives its loop's pending accepts, which hold this.
  Listener(Core& core, const std::string& tag, std::shared_ptr<TlsIdentity> identity)
      : core_(core),
        acceptor_(core.io.get_executor()),
        pause_(core.io.get_executor()),
        tag_(std::make_shared<const std::string>(tag)),
        identity_(std::move(identity)) {}

  Result<std::uint16_t> open(const tcp::endpoint& at) {
    const MutexLock lock(mutex_);
    boost::system::error_code ec;
    acceptor_.open(at.protocol(), ec);
    if (!ec) {
      acceptor_.set_option(asio::socket_base::reuse_address(true), ec);
    }
    if (!ec) {
      acceptor_.bind(at, ec);
    }
    if (!ec) {
      acceptor_.listen(SOMAXCONN, ec);
    }
    if (ec) {
      return listen_error(ec, at);
    }
    endpoint_ = acceptor_.local_endpoint(ec);
    accept();
    return endpoint_.port();
  }

  void stop_accepting() {
    const MutexLock lock(mutex_);
    boost::system::error_code ignored;
    acceptor_.close(ignored);
    pause_.cancel();
  }

  void close_connections() { core_.abort_listener(tag_.get()); }

  const tcp::endpoint& endpoint() const { return endpoint_; }

 private:
  // The pending accept keeps the listener alive; stop_accepting() ends it.
  void accept() {
    acceptor_.async_accept(
        [self = shared_from_this()](const boost::system::error_code& ec, TcpSocket socket) {
          self->on_accept(ec, std::move(socket));
        });
  }

  void on_accept(const boost::system::error_code& ec, TcpSocket socket) {
    const MutexLock lock(mutex_);
    if (!acceptor_.is_open()) {
      return;
    }
    if (!ec) {
      take(std::move(socket));  // locked, so that close_connections() misses none
    }
    if (ec && ec != asio::error::connection_aborted) {
      complain("cannot accept a connection: " + ec.message());
      return accept_later(kAcceptPause);
    }
    accept_when_there_is_room();
  }

  // Whoever comes meanwhile waits in the kernel's queue.
  void accept_when_there_is_room() {
    const Core::Room room = core_.make_room();
    if (room == Core::Room::kYes) {
      return accept();
    }
    complain(
        "all " + std::to_string(core_.max_connections) +
        " connections are in use: new ones wait; a higher limit of open files, or more memory, "
        "allows more");
    accept_later(room == Core::Room::kSoon ? kEvictionPause : kAcceptPause);
  }

  void accept_later(Duration pause) {
    pause_.expires_after(pause);
    pause_.async_wait([self = shared_from_this()](const boost::system::error_code& stopped) {
      const MutexLock again(self->mutex_);
      if (!stopped && self->acceptor_.is_open()) {
        self->accept_when_there_is_room();
      }
    });
  }

  // Once a minute: it may go on for long.
  void complain(const std::string& text) {
    const SteadyTime now = core_.clock.steady_now();
    if (now >= next_complaint_) {
      log_warning(text);
      next_complaint_ = now + kComplaintPause;
    }
  }

  void take(TcpSocket socket) {
    boost::system::error_code ec;
    Connection::Origin origin{.tag = tag_, .peer = socket.remote_endpoint(ec)};
    if (ec) {
      return;  // closed again already
    }
    socket.native_non_blocking(true, ec);
    set_options(socket.native_handle());
    const int fd = socket.native_handle();
    auto transport = identity_ ? tls_transport(fd, *identity_) : plain_transport(fd);
    if (transport == nullptr) {
      return complain("no memory for a TLS session: a connection was closed");
    }
    const auto connection = std::make_shared<Connection>(
        core_.shared_from_this(), std::move(socket), std::move(transport), std::move(origin));
    if (core_.add(connection)) {
      connection->start();
    }
  }

  Core& core_;
  Mutex mutex_;
  Acceptor acceptor_ GUARDED_BY(mutex_);
  asio::basic_waitable_timer<std::chrono::steady_clock,
                             asio::wait_traits<std::chrono::steady_clock>,
                             asio::io_context::executor_type>
      pause_ GUARDED_BY(mutex_);
  SteadyTime next_complaint_ GUARDED_BY(mutex_){};
  const std::shared_ptr<const std::string> tag_;
  const std::shared_ptr<TlsIdentity> identity_;  // null: in the clear
  tcp::endpoint endpoint_;
};

class AsioServer final : public Server {
 public:
  AsioServer(const ServerOptions& options, Handler handler)
      : core_(std::make_shared<Core>(options, std::move(handler))) {
    core_->start();
  }

  ~AsioServer() override { stop(Duration(0)); }

  Result<std::uint16_t> listen(const std::string& address, std::uint16_t port,
                               const std::string& tag,
                               std::shared_ptr<TlsIdentity> identity) override {
    boost::system::error_code ec;
    const asio::ip::address ip = asio::ip::make_address(address, ec);
    if (ec) {
      return Error{Code::kInvalidArgument, "'" + address + "' is not an IP address"};
    }
    const MutexLock lock(mutex_);
    if (stopped_) {
      return Error{Code::kCancelled, "the server stops"};
    }
    auto listener = std::make_shared<Listener>(*core_, tag, std::move(identity));
    YARD_TRY(const std::uint16_t bound, listener->open(tcp::endpoint(ip, port)));
    listeners_.push_back(std::move(listener));
    return bound;
  }

  void unlisten(const std::string& address, std::uint16_t port) override {
    boost::system::error_code ec;
    const tcp::endpoint at(asio::ip::make_address(address, ec), port);
    std::shared_ptr<Listener> closing;
    {
      const MutexLock lock(mutex_);
      const auto found = std::find_if(listeners_.begin(), listeners_.end(),
                                      [&](const auto& one) { return one->endpoint() == at; });
      if (ec || found == listeners_.end()) {
        return;
      }
      closing = std::move(*found);
      listeners_.erase(found);
    }
    closing->stop_accepting();
    closing->close_connections();
  }

  void stop(Duration grace) override {
    std::vector<std::shared_ptr<Listener>> closing;
    {
      const MutexLock lock(mutex_);
      if (std::exchange(stopped_, true)) {
        return;
      }
      closing.swap(listeners_);
    }
    for (const auto& listener : closing) {
      listener->stop_accepting();
    }
    core_->stop(grace);
  }

 private:
  const std::shared_ptr<Core> core_;
  Mutex mutex_;
  std::vector<std::shared_ptr<Listener>> listeners_ GUARDED_BY(mutex_);
  bool stopped_ GUARDED_BY(mutex_) = false;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::start(ServerOptions options, Handler handler) {
  if (handler == nullptr) {
    return Error{Code::kInvalidArgument, "a server needs a handler"};
  }
  ignore_broken_pipes();
  return std::unique_ptr<Server>(std::make_unique<AsioServer>(options, std::move(handler)));
}

}  // namespace trainyard::http
