// SPDX-License-Identifier: Apache-2.0
// HTTP framing through the real server on a loopback connection. The bytes of an input are sent,
// cut at a place that the first byte chooses, and the connection is half closed. The server must
// answer each request that it hands to the handler, in order, refuse what follows a refusal, and
// see the same requests wherever the bytes are cut: two readings of one stream are a smuggled
// request.
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "http/server.h"
#include "testing/fuzz/fuzz.h"

namespace {

namespace http = trainyard::http;

class Target {
 public:
  Target() {
    auto started = http::Server::start(
        {.io_threads = 1, .max_workers = 2},
        [this](std::unique_ptr<http::Exchange> exchange) { handle(*exchange); });
    YARD_CHECK(started.has_value(), "the server does not start");
    server_ = std::move(*started);
    port_ = server_->listen("127.0.0.1", 0, "fuzz").value_or(0);
    YARD_CHECK(port_ != 0, "the server does not listen");
  }

  // What the handler was given over one connection, one text a request.
  std::vector<std::string> requests_of(std::string_view bytes, std::size_t cut) {
    seen_.clear();
    const trainyard::Fd connection = connect();
    send(connection, bytes.substr(0, cut));
    send(connection, bytes.substr(cut));
    ::shutdown(connection.get(), SHUT_WR);
    const std::string answers = read_all(connection);
    // A body that breaks closes the connection while its handler still has to say so.
    std::unique_lock lock(mutex_);
    YARD_CHECK(ended_.wait_for(lock, std::chrono::seconds(4), [&] { return running_ == 0; }),
               "a handler does not end");
    std::size_t answered = 0;
    for (std::size_t at = answers.find("HTTP/1.1 200"); at != std::string::npos;
         at = answers.find("HTTP/1.1 200", at + 1)) {
      ++answered;
    }
    YARD_CHECK(answered <= seen_.size(), "an answer without a request");
    return seen_;
  }

 private:
  void handle(http::Exchange& exchange) {
    const http::Request& request = exchange.request();
    {
      const std::scoped_lock lock(mutex_);
      ++running_;
    }
    const auto body = exchange.read_all(1'000'000);
    std::string text = request.method + " " + request.path + "?" + request.query + "\n";
    for (const auto& [name, value] : request.headers.fields()) {
      text += name + ":" + value + "\n";
      YARD_CHECK((name + value).find_first_of("\r\n") == std::string::npos,
                 "a header with a line end");
    }
    text += body ? "\n" + *body : "(cut off)";
    {
      const std::scoped_lock lock(mutex_);
      seen_.push_back(std::move(text));
      --running_;
    }
    ended_.notify_all();
    exchange.respond({.status = 200, .headers = {}, .body = "ok"});
  }

  trainyard::Fd connect() const {
    trainyard::Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int yes = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    // The reset at the end leaves no port in TIME_WAIT: a run makes more connections than there
    // are ports.
    const linger hard{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    const timeval patience{.tv_sec = 4, .tv_usec = 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port_);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    // Others on this machine may hold all ports for a while; that is no fault of the server's.
    int tries = 0;
    while (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      YARD_CHECK((errno == EADDRNOTAVAIL || errno == EINTR) && ++tries < 1000,
                 std::string("the server is gone: ") + std::strerror(errno));
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return fd;
  }

  static void send(const trainyard::Fd& fd, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) {
        return;  // the server has refused what came before
      }
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  static std::string read_all(const trainyard::Fd& fd) {
    std::string all;
    char buffer[4'096];
    for (;;) {
      const ssize_t got = ::recv(fd.get(), buffer, sizeof buffer, 0);
      YARD_CHECK(got >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK),
                 "the server neither answers nor closes");
      if (got <= 0) {
        return all;
      }
      all.append(buffer, static_cast<std::size_t>(got));
    }
  }

  std::mutex mutex_;
  std::condition_variable ended_;
  int running_ = 0;
  std::vector<std::string> seen_;
  std::uint16_t port_ = 0;
  std::unique_ptr<http::Server> server_;
};

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Target target;  // one server for the whole run
  std::string_view bytes = trainyard::fuzz::as_text(data, size);
  const std::size_t cut = std::min<std::size_t>(trainyard::fuzz::take_byte(bytes), bytes.size());
  const auto whole = target.requests_of(bytes, bytes.size());
  const auto pieces = target.requests_of(bytes, cut);
  YARD_CHECK(whole == pieces, "the same bytes are other requests when they are cut elsewhere");
  return 0;
}
