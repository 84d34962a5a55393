// SPDX-License-Identifier: Apache-2.0
// TLS over a non-blocking socket. OpenSSL's own socket BIO writes with write(2), which raises
// SIGPIPE and blocks on blocking descriptors; this one does neither.
#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <sys/socket.h>

#include "http/internal/tls_context.h"

namespace trainyard::http {
namespace {

constexpr std::size_t kRecord = std::size_t{16} << 10;

// What a browser or a client with the wrong scheme gets, in the clear, as it asked.
constexpr std::string_view kSpeaksTls =
    "HTTP/1.1 400 Bad Request\r\nServer: trainyard\r\nContent-Type: text/plain\r\n"
    "Content-Length: 46\r\nConnection: close\r\n\r\n"
    "This port speaks TLS: use an https:// address\n";

int fd_of(BIO* bio) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio)));
}

bool is_transient(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

int bio_write(BIO* bio, const char* data, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t sent =
      ::send(fd_of(bio), data, static_cast<std::size_t>(size), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0 && is_transient(errno)) {
    BIO_set_retry_write(bio);
  }
  return static_cast<int>(sent);
}

int bio_read(BIO* bio, char* data, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t got = ::recv(fd_of(bio), data, static_cast<std::size_t>(size), MSG_DONTWAIT);
  if (got < 0 && is_transient(errno)) {
    BIO_set_retry_read(bio);
  }
  return static_cast<int>(got);
}

long bio_control(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

struct Method {
  Method() : method(BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "trainyard socket")) {
    BIO_meth_set_write(method.get(), bio_write);
    BIO_meth_set_read(method.get(), bio_read);
    BIO_meth_set_ctrl(method.get(), bio_control);
    BIO_meth_set_create(method.get(), [](BIO* bio) {
      BIO_set_init(bio, 1);
      return 1;
    });
  }
  std::unique_ptr<BIO_METHOD, OpenSslFree<BIO_meth_free>> method;
};

const BIO_METHOD* method() {
  static const Method kMethod;
  return kMethod.method.get();
}

class TlsTransport final : public Transport {
 public:
  TlsTransport(int socket, SslSession ssl) : socket_(socket), ssl_(std::move(ssl)) {
    BIO* const bio = BIO_new(method());
    BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(socket)));
    SSL_set_bio(ssl_.get(), bio, bio);
    SSL_set_accept_state(ssl_.get());
  }

  bool is_handshaking() const override { return true; }

  IoStep open() override {
    ERR_clear_error();
    const int done = SSL_do_handshake(ssl_.get());
    if (done == 1) {
      return {};
    }
    const unsigned long reason = ERR_GET_REASON(ERR_peek_error());
    const IoStep step = step_of(done);
    if (step.io == Io::kClosed && reason == SSL_R_HTTP_REQUEST) {
      // Best effort: it fits into any socket's buffer.
      (void)::send(socket_, kSpeaksTls.data(), kSpeaksTls.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    return step;
  }

  IoStep receive(std::span<char> out) override {
    if (has_failed_) {
      return discard(out);
    }
    ERR_clear_error();
    const int got = SSL_read(ssl_.get(), out.data(),
                             static_cast<int>(std::min<std::size_t>(out.size(), INT_MAX)));
    return got > 0 ? IoStep{Io::kDone, static_cast<std::size_t>(got)} : step_of(got);
  }

  // One record at a time. The first one takes the head and the beginning of the body together.
  IoStep transmit(std::string_view head, std::string_view body) override {
    if (has_failed_) {
      return {Io::kClosed, 0};
    }
    std::array<char, kRecord> record;
    std::string_view bytes = head.empty() ? body : head;
    if (!head.empty() && !body.empty() && head.size() < record.size()) {
      const std::size_t of_body = std::min(body.size(), record.size() - head.size());
      std::copy(head.begin(), head.end(), record.begin());
      std::copy_n(body.begin(), of_body, record.begin() + static_cast<std::ptrdiff_t>(head.size()));
      bytes = {record.data(), head.size() + of_body};
    }
    if (bytes.empty()) {
      return {};
    }
    ERR_clear_error();
    const int sent = SSL_write(ssl_.get(), bytes.data(),
                               static_cast<int>(std::min<std::size_t>(bytes.size(), kRecord)));
    return sent > 0 ? IoStep{Io::kDone, static_cast<std::size_t>(sent)} : step_of(sent);
  }

  Result<IoStep> transmit_file(const FilePart& part) override {
    return copy_file_part(*this, part);
  }

  // Bytes of an incomplete record do not count: they need the socket.
  bool has_received_more() const override { return !has_failed_ && SSL_pending(ssl_.get()) > 0; }

  void end() override {
    if (!has_failed_ && SSL_is_init_finished(ssl_.get())) {
      SSL_shutdown(ssl_.get());  // the notice only: the peer's own is not waited for
      ERR_clear_error();
    }
  }

 private:
  IoStep step_of(int result) {
    switch (SSL_get_error(ssl_.get(), result)) {
      case SSL_ERROR_WANT_READ:
        return {Io::kNeedsInput, 0};
      case SSL_ERROR_WANT_WRITE:
        return {Io::kNeedsRoom, 0};
      default:
        has_failed_ = true;  // no further call is allowed after such an error
        ERR_clear_error();
        return {Io::kClosed, 0};
    }
  }

  // What comes after a failure is only drained.
  IoStep discard(std::span<char> out) {
    const ssize_t got = ::recv(socket_, out.data(), out.size(), MSG_DONTWAIT);
    if (got > 0) {
      return {Io::kDone, static_cast<std::size_t>(got)};
    }
    return {got < 0 && is_transient(errno) ? Io::kNeedsInput : Io::kClosed, 0};
  }

  const int socket_;
  const SslSession ssl_;
  bool has_failed_ = false;
};

}  // namespace

std::unique_ptr<Transport> tls_transport(int socket, const TlsIdentity& identity) {
  SslSession session = new_session(identity);
  return session == nullptr ? nullptr : std::make_unique<TlsTransport>(socket, std::move(session));
}

}  // namespace trainyard::http
