// SPDX-License-Identifier: Apache-2.0
// What connections may hold together, seen by one of them while the others hold all of it.
#include <algorithm>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "http/internal/connection.h"
#include "http/internal/core.h"
#include "http/test_peer.h"

namespace trainyard::http {
namespace {

using testing::EndsWith;
using testing::StartsWith;

constexpr std::int64_t kAll = Core::kMaxHeld;

// One connection of a server whose others, which need not be there, hold `others` bytes.
class Crowd {
 public:
  Crowd(Handler handler, std::int64_t others, const ServerOptions& options = {})
      : core_(std::make_shared<Core>(options, std::move(handler))) {
    core_->hold(others);
    core_->start();
    const Fd listening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in at{};
    socklen_t size = sizeof at;
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(listening.get(), reinterpret_cast<sockaddr*>(&at), size), 0);
    EXPECT_EQ(::listen(listening.get(), 1), 0);
    EXPECT_EQ(::getsockname(listening.get(), reinterpret_cast<sockaddr*>(&at), &size), 0);
    peer = std::make_unique<RawPeer>(ntohs(at.sin_port));
    const int fd = ::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    TcpSocket socket(core_->io.get_executor(), boost::asio::ip::tcp::v4(), fd);
    Connection::Origin origin{.tag = std::make_shared<const std::string>("test"), .peer = {}};
    const auto connection = std::make_shared<Connection>(core_, std::move(socket),
                                                         plain_transport(fd), std::move(origin));
    EXPECT_TRUE(core_->add(connection));
    connection->start();
  }
  ~Crowd() { core_->stop(Duration(0)); }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  bool holds_too_much() const { return core_->holds_too_much(); }

  std::unique_ptr<RawPeer> peer;

 private:
  const std::shared_ptr<Core> core_;
};

// How much less of the processor a thread gets.
int niceness_of(pid_t thread) {
  return ::getpriority(PRIO_PROCESS, static_cast<id_t>(thread));
}

// What it read of the body, and how nice its thread is.
void tell_length(std::unique_ptr<Exchange> exchange) {
  const auto body = exchange->read_all(std::size_t{1} << 20);
  exchange->respond({.body = std::to_string(body ? body->size() : 0) + " by " +
                             std::to_string(niceness_of(::gettid())) + "."});
}

// As tell_length() does where a worker has read that much: one for transfers, or another.
std::string told(std::size_t length, bool by_transfer) {
  const int nice = niceness_of(::getpid());
  return std::to_string(length) + " by " +
         std::to_string(by_transfer ? std::min(nice + 5, 19) : nice) + ".";
}

std::string post(std::size_t length) {
  return "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(length) + "\r\n\r\n";
}

TEST(Crowd, ThatHoldsAllDoesNotStopABodyThatIsSent) {
  const Crowd crowd(tell_length, kAll);
  crowd.peer->send(post(60'000) + std::string(60'000, 'x'));
  EXPECT_THAT(crowd.peer->read_answer(), EndsWith(told(60'000, true)));
  crowd.peer->send(post(3'000) + std::string(3'000, 'x'));
  EXPECT_THAT(crowd.peer->read_answer(), EndsWith(told(3'000, false)));
}

TEST(Crowd, ThatHoldsLittleLeavesSmallBodiesToTheLoop) {
  const Crowd crowd(tell_length, 0);
  crowd.peer->send(post(60'000) + std::string(60'000, 'x'));
  EXPECT_THAT(crowd.peer->read_answer(), EndsWith(told(60'000, false)));
}

TEST(Crowd, ThatHoldsAllHasLongHeadsRefused) {
  const Crowd crowd(tell_length, kAll);
  crowd.peer->send("GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(6'000, 'a') + "\r\n\r\n");
  EXPECT_THAT(crowd.peer->read_answer(), StartsWith("HTTP/1.1 200 "));
  crowd.peer->send("GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(40'000, 'a'));
  EXPECT_THAT(crowd.peer->read_to_end(), StartsWith("HTTP/1.1 503 "));
}

TEST(Crowd, HasNothingHeldForABodyThatIsDrained) {
  const Crowd crowd(tell_length, kAll - 40'000, {.max_queued = 0});
  crowd.peer->send(post(60'000) + std::string(50'000, 'x'));
  ASSERT_TRUE(eventually([&] {  // each piece that comes makes it look at what all hold
    crowd.peer->send("x");
    pollfd answered{.fd = crowd.peer->fd(), .events = POLLIN, .revents = 0};
    return ::poll(&answered, 1, 2) == 1;
  }));
  EXPECT_THAT(crowd.peer->read_answer(), StartsWith("HTTP/1.1 503 "));
  EXPECT_TRUE(eventually([&] { return !crowd.holds_too_much(); }));
}

TEST(ConnectionLimit, FollowsFilesAndMemory) {
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(connection_limit(1'024, 64 * kGiB), 640u);
  EXPECT_EQ(connection_limit(std::uint64_t{1} << 20, 16 * kGiB), 65'536u);
  EXPECT_EQ(connection_limit(kNone, 16 * kGiB), 65'536u);
  EXPECT_EQ(connection_limit(8, 64 * kGiB), 16u);
  EXPECT_EQ(connection_limit(1'024, 0), 16u);
}

}  // namespace
}  // namespace trainyard::http
