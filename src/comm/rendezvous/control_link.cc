// SPDX-License-Identifier: Apache-2.0
#include "comm/rendezvous/control_link.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "comm/rendezvous/sockets.h"

namespace trainyard::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kReads = 64;  // at once, so that nobody keeps the thread to himself

// The verb of messages that bring a descriptor with them.
bool brings_fd(const Fields& fields) {
  return !fields.empty() && fields[0].ends_with("+fd");
}

}  // namespace

void ControlLink::send(const Fields& fields, int passed) {
  Fd duplicate(passed >= 0 ? ::fcntl(passed, F_DUPFD_CLOEXEC, 0) : -1);
  unsent_.push_back({encode_frame(fields), std::move(duplicate)});
  flush();
}

void ControlLink::flush() {
  while (!unsent_.empty()) {
    Unsent& next = unsent_.front();
    iovec part{.iov_base = next.bytes.data(), .iov_len = next.bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    if (next.passed.is_open()) {
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof(int));
      const int fd = next.passed.get();
      std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
    }
    const ssize_t count = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
    if (count < 0) {
      if (errno == EINTR) {
        continue;
      }
      if (errno != EAGAIN) {
        unsent_.clear();  // the reading side tells
      }
      return;
    }
    next.passed.reset();
    next.bytes.erase(0, static_cast<std::size_t>(count));
    if (next.bytes.empty()) {
      unsent_.pop_front();
    }
  }
}

void ControlLink::finish() {
  ::shutdown(fd_.get(), SHUT_WR);
}

Result<bool> ControlLink::read_some() {
  std::array<char, 16384> buffer;
  iovec part{.iov_base = buffer.data(), .iov_len = buffer.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(8 * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t count = ::recvmsg(fd_.get(), &message, MSG_CMSG_CLOEXEC);
  if (count < 0) {
    if (errno == EAGAIN || errno == EINTR) {
      return false;
    }
    Error error = errno_error("read a control connection", errno);
    error.code = Code::kUnavailable;
    return error;
  }
  for (cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr; one = CMSG_NXTHDR(&message, one)) {
    if (one->cmsg_level == SOL_SOCKET && one->cmsg_type == SCM_RIGHTS) {
      const std::size_t fds = (one->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < fds; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(one) + i * sizeof(int), sizeof(fd));
        arrived_fds_.emplace_back(fd);
      }
    }
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    return Error{Code::kExhausted, "this process has no descriptor left for it (ulimit -n)"};
  }
  if (count == 0) {
    return Error{Code::kUnavailable, "the other side has closed the connection"};
  }
  reader_.feed({buffer.data(), static_cast<std::size_t>(count)});
  while (true) {
    YARD_TRY(auto fields, reader_.next());
    if (!fields) {
      return true;
    }
    ControlMessage arrived{.fields = std::move(*fields), .fd = Fd()};
    if (brings_fd(arrived.fields)) {
      if (arrived_fds_.empty()) {
        return Error{Code::kCorrupt, "a message came without its descriptor"};
      }
      arrived.fd = std::move(arrived_fds_.front());
      arrived_fds_.pop_front();
    }
    arrived_.push_back(std::move(arrived));
  }
}

Result<void> ControlLink::receive(std::vector<ControlMessage>& out) {
  Result<bool> more = true;
  for (int reads = 0; more && *more && reads < kReads; ++reads) {
    more = read_some();
  }
  while (!arrived_.empty()) {
    out.push_back(std::move(arrived_.front()));
    arrived_.pop_front();
  }
  return more ? Result<void>() : Result<void>(more.error());
}

Result<std::optional<ControlMessage>> ControlLink::look() {
  if (arrived_.empty()) {
    YARD_TRY(read_some());
  }
  if (arrived_.empty()) {
    return std::optional<ControlMessage>();
  }
  std::optional<ControlMessage> message = std::move(arrived_.front());
  arrived_.pop_front();
  return message;
}

Result<ControlMessage> ControlLink::wait(milliseconds time) {
  const auto end = steady_clock::now() + time;
  while (arrived_.empty()) {
    const auto left = std::chrono::duration_cast<milliseconds>(end - steady_clock::now());
    if (left.count() <= 0) {
      return Error{Code::kDeadline, "no message in time"};
    }
    flush();
    YARD_TRY(const bool is_ready,
             wait_ready(fd_.get(), Ready::kRead, has_unsent() ? milliseconds(10) : left));
    if (is_ready) {
      YARD_TRY(read_some());
    }
  }
  ControlMessage message = std::move(arrived_.front());
  arrived_.pop_front();
  return message;
}

}  // namespace trainyard::comm
