// SPDX-License-Identifier: Apache-2.0
#include "bench/load/socket.h"

#include <array>
#include <cerrno>

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace trainyard::load {
namespace {

template <typename T>
void set_option(int fd, int level, int option, const T& value) {
  ::setsockopt(fd, level, option, &value, sizeof(value));
}

}  // namespace

Result<Fd> connect_to(const Plan& plan) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(plan.port);
  if (::inet_pton(AF_INET, plan.address.c_str(), &to.sin_addr) != 1) {
    return Error{Code::kInvalidArgument, "not an IPv4 address: " + plan.address};
  }
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) {
    return errno_error("socket", errno);
  }
  const auto ms = plan.answer_timeout.count();
  const timeval limit{.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
  set_option(fd.get(), SOL_SOCKET, SO_RCVTIMEO, limit);
  set_option(fd.get(), SOL_SOCKET, SO_SNDTIMEO, limit);
  set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0) {
    return errno_error(fmt::format("cannot connect to {}:{}", plan.address, plan.port), errno);
  }
  return fd;
}

Result<void> make_nonblocking(const Fd& fd) {
  const int flags = ::fcntl(fd.get(), F_GETFL);
  if (flags < 0 || ::fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return errno_error("fcntl", errno);
  }
  return {};
}

Result<Answer> ask(const Fd& fd, const Prepared& request, bool keeps_text) {
  const std::string bytes = request.head + request.body();
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t n = ::send(fd.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n < 0) {
      return errno_error("send", errno);
    }
    sent += static_cast<std::size_t>(n);
  }
  AnswerReader reader(keeps_text);
  std::array<char, 16384> buffer;
  while (!reader.is_done()) {
    const ssize_t n = ::recv(fd.get(), buffer.data(), buffer.size(), 0);
    if (n < 0) {
      return errno_error("recv", errno);
    }
    if (n == 0) {
      return Error{Code::kUnavailable, "the server closed the connection before its answer"};
    }
    YARD_TRY(reader.feed({buffer.data(), static_cast<std::size_t>(n)}));
  }
  return reader.answer();
}

}  // namespace trainyard::load
