// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/tcp/outlet.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <linux/errqueue.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "comm/rendezvous/sockets.h"

namespace trainyard::comm {
namespace {

// Below this the bookkeeping of pinned pages costs more than the copy.
constexpr std::size_t kCopylessBytes = std::size_t{64} << 10;

}  // namespace

void Outlet::attach(std::vector<PrivateFd> connections) {
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    const int on = 1;
    Line& line = lines_[i];
    line.fd = std::move(connections[i]);
    line.may_go_without_copy =
        ::setsockopt(line.fd.get(), SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on)) == 0;
  }
}

bool Outlet::is_silent(std::chrono::steady_clock::time_point now) {
  return std::ranges::any_of(lines_, [now](Line& line) {
    return line.fd.is_open() && line.silence.is_silent(line.fd.get(), now);
  });
}

void Outlet::push(const Label& label, std::span<const std::byte> bytes, Staging staging,
                  bool is_needed) {
  Message message;
  message.header = encode({.label = label, .bytes = bytes.size()});
  message.bytes = bytes;
  message.staging = std::move(staging);
  message.number = pushed_++;
  message.is_needed = is_needed;
  finished_.push_back(false);
  ++waiting_;
  Line& line = lines_[message.number % lines_.size()];
  line.queue.push_back(std::move(message));
}

void Outlet::drop_unneeded() {
  for (Line& line : lines_) {
    for (const Message& message : line.queue) {
      if (!message.is_needed) {
        finish(message.number);
      }
    }
    std::erase_if(line.queue, [](const Message& message) { return !message.is_needed; });
  }
}

Result<void> Outlet::pump() {
  for (Line& line : lines_) {
    YARD_TRY(pump(line));
  }
  return {};
}

Result<void> Outlet::pump(Line& line) {
  if (!line.fd.is_open() || has_given_up_) {
    return {};
  }
  while (!line.queue.empty()) {
    YARD_TRY(const bool has_sent, send_some(line, line.queue.front()));
    Message& message = line.queue.front();
    if (message.sent < kHeaderBytes + message.bytes.size()) {
      if (!has_sent) {
        break;
      }
      continue;
    }
    if (message.is_copyless) {
      line.borrowed.push_back(std::move(message));
    } else {
      finish(message.number);
    }
    line.queue.pop_front();
  }
  take_back(line);
  return {};
}

// False when the kernel takes nothing at the moment.
Result<bool> Outlet::send_some(Line& line, Message& message) {
  std::array<iovec, 2> parts{};
  std::size_t count = 0;
  if (message.sent < kHeaderBytes) {
    parts[count++] = {.iov_base = message.header.data() + message.sent,
                      .iov_len = kHeaderBytes - message.sent};
  }
  const std::size_t from = message.sent > kHeaderBytes ? message.sent - kHeaderBytes : 0;
  const std::size_t left = message.bytes.size() - from;
  const bool goes_without_copy = line.may_go_without_copy && left >= kCopylessBytes && count == 0;
  // The header goes alone, with the kernel told that more follows: only whole user pages are lent.
  const bool header_first = line.may_go_without_copy && left >= kCopylessBytes && count == 1;
  if (left > 0 && !header_first) {
    // sendmsg does not write to what it sends; its type is not const because recvmsg shares it.
    parts[count++] = {.iov_base = const_cast<std::byte*>(message.bytes.data() + from),
                      .iov_len = left};
  }
  msghdr what{};
  what.msg_iov = parts.data();
  what.msg_iovlen = count;
  const int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (goes_without_copy ? MSG_ZEROCOPY : 0) |
                    (header_first ? MSG_MORE : 0);
  const ssize_t sent = ::sendmsg(line.fd.get(), &what, flags);
  if (sent >= 0) {
    message.sent += static_cast<std::size_t>(sent);
    if (goes_without_copy && sent > 0) {
      message.is_copyless = true;
      message.last_copyless = ++line.copyless;
    }
    return sent > 0;
  }
  if (errno == EAGAIN || errno == EINTR) {
    return false;
  }
  if (errno == ENOBUFS && goes_without_copy) {  // no more pages may be pinned: copy
    line.may_go_without_copy = false;
    return true;
  }
  Error error = errno_error("send", errno);
  error.code = Code::kUnavailable;
  return error;
}

void Outlet::take_back(Line& line) {
  while (line.returned != line.copyless) {
    std::array<char, 128> control{};
    msghdr what{};
    what.msg_control = control.data();
    what.msg_controllen = control.size();
    if (::recvmsg(line.fd.get(), &what, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) {
      break;
    }
    for (cmsghdr* one = CMSG_FIRSTHDR(&what); one != nullptr; one = CMSG_NXTHDR(&what, one)) {
      const auto* status = reinterpret_cast<const sock_extended_err*>(CMSG_DATA(one));
      if (status->ee_origin != SO_EE_ORIGIN_ZEROCOPY) {
        continue;
      }
      line.returned_early[status->ee_info] = status->ee_data + 1;
      // The path copies all the same (loopback, veth): then the plain way is cheaper.
      if ((status->ee_code & SO_EE_CODE_ZEROCOPY_COPIED) != 0) {
        line.may_go_without_copy = false;
      }
    }
  }
  // Usually in order, but the kernel does not promise it.
  for (auto next = line.returned_early.find(line.returned); next != line.returned_early.end();
       next = line.returned_early.find(line.returned)) {
    line.returned = next->second;
    line.returned_early.erase(next);
  }
  while (!line.borrowed.empty() &&
         static_cast<std::int32_t>(line.returned - line.borrowed.front().last_copyless) >= 0) {
    finish(line.borrowed.front().number);
    line.borrowed.pop_front();
  }
}

void Outlet::give_up() {
  has_given_up_ = true;
  for (Line& line : lines_) {
    if (!line.fd.is_open()) {
      continue;
    }
    take_back(line);
    if (line.returned != line.copyless) {
      // A reset at once, which drops what is to be sent, also what waits to be sent again. Closing
      // would do so only when nobody else polls the connection any more.
      const sockaddr nowhere{.sa_family = AF_UNSPEC, .sa_data = {}};
      [[maybe_unused]] const int status = ::connect(line.fd.get(), &nowhere, sizeof(nowhere));
    }
  }
}

void Outlet::finish(std::uint64_t number) {
  --waiting_;
  finished_[number - done_] = true;
  while (!finished_.empty() && finished_.front()) {
    finished_.pop_front();
    ++done_;
  }
}

std::uint64_t Outlet::done() const {
  return done_;
}

void Outlet::list(std::vector<pollfd>& entries) const {
  for (const Line& line : lines_) {
    if (line.fd.is_open() && (!line.queue.empty() || !line.borrowed.empty())) {
      const short events = line.queue.empty() ? short{0} : short{POLLOUT};
      entries.push_back({.fd = line.fd.get(), .events = events, .revents = 0});
    }
  }
}

}  // namespace trainyard::comm
