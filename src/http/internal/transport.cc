// SPDX-License-Identifier: Apache-2.0
#include "http/internal/transport.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/fd.h"

namespace trainyard::http {
namespace {

// One call hands the socket no more than this, so that a stop is seen between calls.
constexpr std::uint64_t kMaxFileStep = std::uint64_t{8} << 20;
// A record of TLS holds as much.
constexpr std::size_t kCopyStep = std::size_t{16} << 10;

bool is_transient(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

// Kernels and file systems that cannot send from a file say so in these ways.
bool is_unsupported(int error) {
  return error == EINVAL || error == ENOSYS || error == EOPNOTSUPP || error == ESPIPE;
}

bool is_of_the_file(int error) {
  return error == EIO || error == ENOMEM || error == EOVERFLOW || error == EBADF || error == EACCES;
}

Error ended_early() {
  return {Code::kCorrupt, "the file ended before what was to be sent of it"};
}

class PlainTransport final : public Transport {
 public:
  explicit PlainTransport(int socket) : socket_(socket) {}

  IoStep receive(std::span<char> out) override {
    const ssize_t got = ::recv(socket_, out.data(), out.size(), MSG_DONTWAIT);
    if (got > 0) {
      return {Io::kDone, static_cast<std::size_t>(got)};
    }
    return {got < 0 && is_transient(errno) ? Io::kNeedsInput : Io::kClosed, 0};
  }

  IoStep transmit(std::string_view head, std::string_view body) override {
    std::array<iovec, 2> parts = {{{const_cast<char*>(head.data()), head.size()},
                                   {const_cast<char*>(body.data()), body.size()}}};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t sent = ::sendmsg(socket_, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      return {Io::kDone, static_cast<std::size_t>(sent)};
    }
    return {is_transient(errno) ? Io::kNeedsRoom : Io::kClosed, 0};
  }

  Result<IoStep> transmit_file(const FilePart& part) override {
    if (copies_) {
      return copy_file_part(*this, part);
    }
    auto offset = static_cast<off_t>(part.offset);
    const auto count = static_cast<std::size_t>(std::min(part.length, kMaxFileStep));
    const ssize_t sent = ::sendfile(socket_, part.fd, &offset, count);
    if (sent > 0) {
      return IoStep{Io::kDone, static_cast<std::size_t>(sent)};
    }
    if (sent == 0) {
      return ended_early();
    }
    if (is_transient(errno)) {
      return IoStep{Io::kNeedsRoom, 0};
    }
    if (is_unsupported(errno)) {
      copies_ = true;
      return copy_file_part(*this, part);
    }
    if (is_of_the_file(errno)) {
      return errno_error("cannot send from a file", errno);
    }
    return IoStep{Io::kClosed, 0};
  }

 private:
  const int socket_;
  bool copies_ = false;  // its files cannot be sent from
};

}  // namespace

std::unique_ptr<Transport> plain_transport(int socket) {
  return std::make_unique<PlainTransport>(socket);
}

// What the socket does not take is read again the next time: a copy that waits would cost each slow
// reader its memory.
Result<IoStep> copy_file_part(Transport& to, const FilePart& part) {
  std::array<std::byte, kCopyStep> piece;
  const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(part.length, piece.size()));
  YARD_TRY(const std::size_t got,
           read_at(part.fd, std::span(piece).first(wanted), static_cast<std::size_t>(part.offset)));
  if (got == 0) {
    return ended_early();
  }
  return to.transmit({}, {reinterpret_cast<const char*>(piece.data()), got});
}

}  // namespace trainyard::http
