// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/shm/fd_passing.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace trainyard::comm {
namespace {

constexpr std::size_t kControlBytes = CMSG_SPACE(kMaxPassedFds * sizeof(int));

struct alignas(cmsghdr) Control {
  std::array<char, kControlBytes> bytes = {};
};

Error socket_error(std::string_view what) {
  if (errno == EAGAIN || errno == EWOULDBLOCK) {
    return Error{Code::kDeadline, fmt::format("{}: the socket would block", what)};
  }
  return errno_error(what, errno);
}

std::vector<Fd> take_fds(msghdr& message) {
  std::vector<Fd> fds;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
  return fds;
}

}  // namespace

Result<void> send_fds(int socket, std::string_view text, std::span<const int> fds) {
  if (text.empty() || text.size() > kMaxPassedText || fds.size() > kMaxPassedFds) {
    return Error{Code::kInvalidArgument,
                 fmt::format("cannot pass {} descriptors with {} bytes of text: at most {} and 1 "
                             "to {} go in one message",
                             fds.size(), text.size(), kMaxPassedFds, kMaxPassedText)};
  }
  iovec part = {.iov_base = const_cast<char*>(text.data()), .iov_len = text.size()};
  Control control;
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.bytes.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) {
    return socket_error("passing descriptors");
  }
  // A stream may take a part; the descriptors have gone with its first byte.
  const auto done = static_cast<std::size_t>(sent);
  return done == text.size() ? Result<void>() : write_all(socket, text.substr(done));
}

Result<PassedFds> receive_fds(int socket, std::size_t text_limit) {
  PassedFds passed = {.text = std::string(text_limit, '\0'), .fds = {}};
  iovec part = {.iov_base = passed.text.data(), .iov_len = passed.text.size()};
  Control control;
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  ssize_t got = 0;
  do {
    got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    return socket_error("receiving descriptors");
  }
  passed.fds = take_fds(message);
  if ((message.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) != 0) {
    return Error{Code::kCorrupt, "descriptors or text were lost: too many, or no room for them"};
  }
  if (got == 0) {
    return Error{Code::kUnavailable, "the connection ended while descriptors were awaited"};
  }
  passed.text.resize(static_cast<std::size_t>(got));
  return passed;
}

Result<void> send_fd(int socket, std::string_view text, int fd) {
  return send_fds(socket, text, std::span(&fd, 1));
}

}  // namespace trainyard::comm
