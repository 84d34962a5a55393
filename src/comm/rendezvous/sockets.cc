// SPDX-License-Identifier: Apache-2.0
#include "comm/rendezvous/sockets.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/text.h"

namespace trainyard::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kBacklog = 1024;
constexpr milliseconds kPause{20};  // between two tries of a port where nobody listens yet

// Of connect(): no answer, also not from the way to the host.
bool is_out_of_reach(int error) {
  return error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
}

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

Result<Addresses> resolve(const Endpoint& endpoint, bool to_listen) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (to_listen ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(endpoint.host.empty() ? nullptr : endpoint.host.c_str(),
                                   std::to_string(endpoint.port).c_str(), &hints, &found);
  if (status != 0) {
    return Error{Code::kUnavailable,
                 fmt::format("resolve {}: {}", endpoint.host, ::gai_strerror(status))};
  }
  return Addresses(found, ::freeaddrinfo);
}

Fd stream_socket(int family) {
  return Fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

milliseconds until(steady_clock::time_point end) {
  return std::max(milliseconds(0),
                  std::chrono::duration_cast<milliseconds>(end - steady_clock::now()));
}

// One try of one address; its errno, 0 when connected.
Result<int> try_connect(int fd, const sockaddr* address, socklen_t length, milliseconds time) {
  if (::connect(fd, address, length) == 0) {
    return 0;
  }
  if (errno != EINPROGRESS) {
    return errno;
  }
  YARD_TRY(const bool is_ready, wait_ready(fd, Ready::kWrite, time));
  if (!is_ready) {
    return ETIMEDOUT;
  }
  int status = 0;
  socklen_t size = sizeof(status);
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &status, &size);
  return status;
}

struct LocalAddress {
  sockaddr_un address{};
  socklen_t length = 0;
};

Result<LocalAddress> local_address(const std::string& name) {
  LocalAddress local;
  local.address.sun_family = AF_UNIX;
  if (name.empty() || name.size() >= sizeof(local.address.sun_path)) {
    return Error{Code::kInvalidArgument, "the name of a local socket is too long: " + name};
  }
  std::memcpy(local.address.sun_path, name.data(), name.size());
  const bool is_abstract = name[0] == '@';
  if (is_abstract) {
    local.address.sun_path[0] = '\0';
  }
  local.length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + (is_abstract ? 0 : 1));
  return local;
}

}  // namespace

std::string to_string(const Endpoint& endpoint) {
  return endpoint.host.find(':') == std::string::npos
             ? fmt::format("{}:{}", endpoint.host, endpoint.port)
             : fmt::format("[{}]:{}", endpoint.host, endpoint.port);
}

Result<Endpoint> parse_endpoint(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  Endpoint endpoint;
  std::string_view host = text.substr(0, colon);
  if (host.size() > 1 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    host = {};
  }
  const auto port =
      parse_int(colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1));
  if (host.empty() || !port || *port < 0 || *port > 65535) {
    return Error{Code::kInvalidArgument,
                 fmt::format("\"{}\" is no address of the form host:port or [v6]:port", text)};
  }
  endpoint.host = std::string(host);
  endpoint.port = static_cast<std::uint16_t>(*port);
  return endpoint;
}

Result<TcpListener> listen_tcp(const Endpoint& endpoint) {
  YARD_TRY(const Addresses addresses, resolve(endpoint, true));
  int last = EADDRNOTAVAIL;
  // Of "any address" IPv6 takes both families, where the kernel has it.
  for (const int family : {AF_INET6, AF_INET}) {
    for (const addrinfo* one = addresses.get(); one != nullptr; one = one->ai_next) {
      if (one->ai_family != family) {
        continue;
      }
      Fd fd = stream_socket(family);
      const int on = 1;
      const int off = 0;
      ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
      if (family == AF_INET6) {
        ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
      }
      sockaddr_storage bound{};
      socklen_t size = sizeof(bound);
      if (!fd.is_open() || ::bind(fd.get(), one->ai_addr, one->ai_addrlen) != 0 ||
          ::listen(fd.get(), kBacklog) != 0 ||
          ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
        last = errno;
        continue;
      }
      const in_port_t port = bound.ss_family == AF_INET6
                                 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                 : reinterpret_cast<sockaddr_in*>(&bound)->sin_port;
      return TcpListener{std::move(fd), ntohs(port)};
    }
  }
  Error error = errno_error("listen on " + to_string(endpoint), last);
  if (last == EADDRINUSE) {
    error.code = Code::kAlreadyExists;
  }
  return error;
}

Result<Fd> connect_tcp(const Endpoint& endpoint, milliseconds time, bool is_patient) {
  const auto end = steady_clock::now() + time;
  while (true) {
    int last = ETIMEDOUT;
    auto addresses = resolve(endpoint, false);
    for (const addrinfo* one = addresses ? addresses->get() : nullptr; one != nullptr;
         one = one->ai_next) {
      Fd fd = stream_socket(one->ai_family);
      YARD_TRY(last, try_connect(fd.get(), one->ai_addr, one->ai_addrlen, until(end)));
      if (last == 0) {
        return fd;
      }
    }
    if (!is_patient || until(end) == milliseconds(0)) {
      if (!addresses) {
        return addresses.error();
      }
      Error error = errno_error("connect to " + to_string(endpoint), last);
      error.code = is_out_of_reach(last) ? Code::kDeadline : Code::kUnavailable;
      return error;
    }
    std::this_thread::sleep_for(std::min(kPause, until(end)));
  }
}

Result<void> tune_tcp(int fd) {
  const int on = 1;
  if (::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0) {
    return errno_error("set the options of a connection", errno);
  }
  return {};
}

Result<void> watch_idle(int fd) {
  const int on = 1;
  const int seconds = 1;
  const int probes = 3;
  if (::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)) != 0 ||
      ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof(seconds)) != 0 ||
      ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof(seconds)) != 0 ||
      ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes)) != 0) {
    return errno_error("set the options of a connection", errno);
  }
  return {};
}

bool SilenceWatch::is_silent(int fd, steady_clock::time_point now) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) {
    return false;
  }
  // Sent without an answer; or not sent, because this host has no way to the other one, which shows
  // in probes without an answer: those of a full buffer are answered.
  const bool is_waiting =
      info.tcpi_unacked > 0 || (info.tcpi_notsent_bytes > 0 && info.tcpi_probes > 1);
  const bool is_missing = is_waiting && info.tcpi_bytes_acked == acknowledged_;
  // What is missing now may have been sent just now when nobody has asked for long.
  if (!is_missing || now - asked_ > kSilence / 2) {
    acknowledged_ = info.tcpi_bytes_acked;
    since_ = now;
  }
  asked_ = now;
  return now - since_ >= kSilence;
}

Result<Fd> listen_local(const std::string& name) {
  YARD_TRY(const LocalAddress local, local_address(name));
  Fd fd = stream_socket(AF_UNIX);
  const bool is_file = name[0] != '@';
  // Connecting to a file takes the permission to write it, which the umask has taken from others.
  if (!fd.is_open() ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&local.address), local.length) != 0 ||
      (is_file && ::chmod(name.c_str(), 0777) != 0) || ::listen(fd.get(), kBacklog) != 0) {
    return errno_error("listen on the local socket " + name, errno);
  }
  return fd;
}

Result<Fd> connect_local(const std::string& name) {
  YARD_TRY(const LocalAddress local, local_address(name));
  Fd fd = stream_socket(AF_UNIX);
  // A full backlog of a non-blocking local socket is EAGAIN: the listener is busy, not away.
  for (int tries = 0; tries < 500; ++tries) {
    if (fd.is_open() &&
        ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&local.address), local.length) == 0) {
      return fd;
    }
    if (errno != EAGAIN && errno != EINTR) {
      break;
    }
    std::this_thread::sleep_for(milliseconds(2));
  }
  return errno_error("connect to the local socket " + name, errno);
}

bool nobody_listens(const std::string& name) {
  const auto local = local_address(name);
  const Fd fd = stream_socket(AF_UNIX);
  return local && fd.is_open() &&
         ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&local->address), local->length) !=
             0 &&
         errno == ECONNREFUSED;
}

Result<Fd> accept_one(int listener) {
  Fd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd.is_open() && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
    return errno_error("accept a connection", errno);
  }
  return fd;
}

Result<bool> wait_ready(int fd, Ready what, milliseconds time) {
  pollfd entry{.fd = fd,
               .events = static_cast<short>(what == Ready::kRead ? POLLIN : POLLOUT),
               .revents = 0};
  const auto end = steady_clock::now() + time;
  constexpr milliseconds kLongest{60'000};  // of a poll, which counts in an int
  while (true) {
    const int count = ::poll(&entry, 1, static_cast<int>(std::min(until(end), kLongest).count()));
    if (count < 0 && errno != EINTR) {
      return errno_error("poll", errno);
    }
    if (count > 0) {
      return true;
    }
    if (until(end) == milliseconds(0)) {
      return false;
    }
  }
}

}  // namespace trainyard::comm
