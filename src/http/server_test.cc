// SPDX-License-Identifier: Apache-2.0
#include "http/server.h"

#include <array>
#include <atomic>
#include <latch>
#include <mutex>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "http/internal/connection.h"
#include "http/test_peer.h"

namespace trainyard::http {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr std::string_view kGet = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

// Keeps an exchange that a handler was given, for another thread to answer.
class Held {
 public:
  Handler handler() {
    return [this](std::unique_ptr<Exchange> exchange) {
      const std::scoped_lock lock(mutex_);
      exchange_ = std::move(exchange);
    };
  }
  bool has() {
    const std::scoped_lock lock(mutex_);
    return exchange_ != nullptr;
  }
  std::unique_ptr<Exchange> take() {
    EXPECT_TRUE(eventually([&] { return has(); }));
    const std::scoped_lock lock(mutex_);
    return std::move(exchange_);
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<Exchange> exchange_;
};

TEST(Server, AnswersWithLengthDateAndName) {
  TestServer server(echo);
  RawPeer peer(server.port);
  peer.send("POST /a?b HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi");
  const std::string answer = peer.read_answer();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\nDate: "));
  EXPECT_THAT(answer, HasSubstr("GMT\r\nServer: trainyard\r\nContent-Length: 10\r\n\r\n"));
  EXPECT_THAT(answer, testing::EndsWith("POST /a hi"));
}

TEST(Server, TellsTheHandlerPeerAndListener) {
  TestServer server([](std::unique_ptr<Exchange> exchange) {
    const Request& request = exchange->request();
    exchange->respond({.body = request.listener + " " + request.peer + " " + request.query});
  });
  RawPeer peer(server.port);
  peer.send("GET /?q=%20 HTTP/1.1\r\nHost: h\r\n\r\n");
  const std::string answer = peer.read_answer();
  EXPECT_THAT(answer, HasSubstr("test 127.0.0.1:"));
  EXPECT_THAT(answer, testing::EndsWith(" q=%20"));
}

TEST(Server, KeepsTheConnectionForTheNextRequest) {
  TestServer server(echo);
  RawPeer peer(server.port);
  for (int i = 0; i < 3; ++i) {
    peer.send(kGet);
    EXPECT_THAT(peer.read_answer(), testing::EndsWith("GET / "));
  }
}

TEST(Server, AnswersPipelinedRequestsInOrder) {
  TestServer server(echo);
  RawPeer peer(server.port);
  std::string wire;
  for (int i = 0; i < 50; ++i) {
    wire += "POST /" + std::to_string(i) + " HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc";
  }
  peer.send(wire);
  for (int i = 0; i < 50; ++i) {
    EXPECT_THAT(peer.read_answer(), testing::EndsWith("POST /" + std::to_string(i) + " abc"));
  }
}

TEST(Server, ClosesWhenAsked) {
  TestServer server(echo);
  RawPeer peer(server.port);
  peer.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(peer.read_answer(), HasSubstr("\r\nConnection: close\r\n"));
  EXPECT_TRUE(peer.sees_end());
}

TEST(Server, HeadHasTheLengthAndNoBody) {
  TestServer server([](std::unique_ptr<Exchange> exchange) {
    Response response{.body = "12345"};
    if (exchange->request().path == "/told") {
      response = {};
      response.headers.add("Content-Length", "77");
    }
    exchange->respond(std::move(response));
  });
  RawPeer peer(server.port);
  peer.send("HEAD / HTTP/1.1\r\nHost: h\r\n\r\nHEAD /told HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_THAT(peer.read_until("\r\n\r\n"), HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(peer.read_until("\r\n\r\n"), HasSubstr("Content-Length: 77\r\n"));
}

TEST(Server, BadRequestsGetAnAnswerAndTheEnd) {
  TestServer server(echo);
  const auto answer_to = [&](std::string_view wire) {
    RawPeer peer(server.port);
    peer.send(wire);
    return peer.read_to_end();
  };
  EXPECT_THAT(answer_to("nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400 Bad Request\r\n"));
  EXPECT_THAT(answer_to("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n"
                        "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /evil HTTP/1.1\r\n\r\n"),
              testing::AllOf(StartsWith("HTTP/1.1 400"), Not(HasSubstr("evil"))));
  EXPECT_THAT(answer_to("GET / HTTP/1.1\r\nX: " + std::string(100'000, 'a')),
              StartsWith("HTTP/1.1 431 "));
}

TEST(Server, ReadsChunkedRequests) {
  TestServer server(echo);
  RawPeer peer(server.port);
  peer.send("POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
  peer.send("2\r\nde\r\n0\r\n\r\n");
  EXPECT_THAT(peer.read_answer(), testing::EndsWith("POST /c abcde"));
  peer.send(kGet);
  EXPECT_THAT(peer.read_answer(), testing::EndsWith("GET / "));
}

TEST(Server, SaysContinueWhenTheBodyIsRead) {
  TestServer server(echo);
  RawPeer peer(server.port);
  peer.send("PUT /e HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(peer.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  peer.send("abc");
  EXPECT_THAT(peer.read_answer(), testing::EndsWith("PUT /e abc"));
}

// Without it botocore misreads the answer after the next on the same connection.
TEST(Server, SaysContinueForAnEmptyBodyToo) {
  TestServer server(echo);
  RawPeer peer(server.port);
  peer.send("PUT /e HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(peer.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_THAT(peer.read_answer(), testing::EndsWith("PUT /e "));
}

TEST(Server, DoesNotSayContinueWhenTheAnswerIsKnown) {
  TestServer server([](std::unique_ptr<Exchange> exchange) { exchange->respond({.status = 403}); });
  RawPeer peer(server.port);
  peer.send("PUT /e HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
  const std::string answer = peer.read_to_end();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(answer, HasSubstr("Connection: close"));
}

TEST(Server, AnExchangeThatIsDroppedAnswers500) {
  TestServer server([](std::unique_ptr<Exchange>) {});
  RawPeer peer(server.port);
  peer.send(kGet);
  EXPECT_THAT(peer.read_answer(), StartsWith("HTTP/1.1 500 "));
}

TEST(Server, AHandlerThatThrowsCostsItsOwnRequestAlone) {
  TestServer server([](std::unique_ptr<Exchange> exchange) {
    if (exchange->request().path == "/throws") {
      throw std::runtime_error("of a library");
    }
    exchange->respond({.body = "served"});
  });
  RawPeer peer(server.port);
  peer.send("GET /throws HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_THAT(peer.read_answer(), StartsWith("HTTP/1.1 500 "));
  peer.send("POST /throws HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
  EXPECT_THAT(peer.read_answer(), StartsWith("HTTP/1.1 500 "));
  peer.send(kGet);
  EXPECT_THAT(peer.read_answer(), testing::EndsWith("served"));
}

TEST(Server, DrainsAShortUnreadBodyAndKeepsTheConnection) {
  TestServer server([](std::unique_ptr<Exchange> exchange) { exchange->respond({}); });
  RawPeer peer(server.port);
  peer.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 200000\r\n\r\n");
  EXPECT_THAT(peer.read_answer(), Not(HasSubstr("close")));
  peer.send(std::string(200'000, 'x'));
  peer.send(kGet);
  EXPECT_THAT(peer.read_answer(), StartsWith("HTTP/1.1 200 "));
}

TEST(Server, ClosesAfterALongUnreadBodyButTheAnswerArrives) {
  TestServer server([](std::unique_ptr<Exchange> exchange) { exchange->respond({.status = 403}); });
  RawPeer peer(server.port);
  peer.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 8000000\r\n\r\n");
  EXPECT_TRUE(peer.send(std::string(8'000'000, 'x')));
  const std::string answer = peer.read_to_end();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(answer, HasSubstr("Connection: close"));
}

TEST(Server, ClosesAfterAnEndlessUnreadChunkedBody) {
  TestServer server([](std::unique_ptr<Exchange> exchange) { exchange->respond({}); });
  RawPeer peer(server.port);
  peer.send("PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
  EXPECT_THAT(peer.read_answer(), StartsWith("HTTP/1.1 200 "));
  const std::string chunk = "10000\r\n" + std::string(65'536, 'x') + "\r\n";
  for (int i = 0; i < 20; ++i) {
    peer.send(chunk);
  }
  EXPECT_TRUE(peer.sees_end());
}

TEST(Server, ReadAllRefusesALongBody) {
  TestServer server([](std::unique_ptr<Exchange> exchange) {
    auto body = exchange->read_all(10);
    const bool is_long = !body && body.error().code == Code::kExhausted;
    exchange->respond({.status = is_long ? 413 : 200});
  });
  RawPeer peer(server.port);
  peer.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n0123456789");
  EXPECT_THAT(peer.read_answer(), StartsWith("HTTP/1.1 200 "));
  peer.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\n\r\n01234567890");
  EXPECT_THAT(peer.read_answer(), StartsWith("HTTP/1.1 413 "));
  peer.send(
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n01234567890\r\n"
      "0\r\n\r\n");
  EXPECT_THAT(peer.read_answer(), StartsWith("HTTP/1.1 413 "));
}

TEST(Server, ASlowHeadIsCutOff) {
  TestServer server(echo, {.idle_timeout = 10s, .io_timeout = 100ms});
  RawPeer peer(server.port);
  peer.send("GET / HTTP/1.1\r\nHost: ");
  EXPECT_TRUE(peer.sees_end());
}

TEST(Server, TricklingBytesDoNotExtendAHeadsTime) {
  TestServer server(echo, {.idle_timeout = 10s, .io_timeout = 100ms});
  RawPeer peer(server.port);
  peer.send("GET / HTTP/1.1\r\nX: ");
  EXPECT_TRUE(eventually([&] { return !peer.send("a"); }));
}

TEST(Server, ASlowSmallBodyHoldsNoWorker) {
  TestServer server(echo, {.max_workers = 1, .idle_timeout = 10s, .io_timeout = 10s});
  RawPeer slow(server.port);
  slow.send("POST /slow HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\na");
  RawPeer other(server.port);
  other.send(kGet);
  EXPECT_THAT(other.read_answer(), StartsWith("HTTP/1.1 200 "));
  slow.send("bc");
  EXPECT_THAT(slow.read_answer(), testing::EndsWith("POST /slow abc"));
}

TEST(Server, AnIdleConnectionIsClosed) {
  TestServer server(echo, {.idle_timeout = 50ms, .io_timeout = 10s});
  RawPeer silent(server.port);
  EXPECT_TRUE(silent.sees_end());
  RawPeer once(server.port);
  once.send(kGet);
  EXPECT_THAT(once.read_answer(), StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(once.sees_end());
}

TEST(Server, ABodyWithoutProgressFailsTheRead) {
  std::atomic<bool> failed = false;
  TestServer server(
      [&](std::unique_ptr<Exchange> exchange) {
        auto body = exchange->read_all(std::size_t{1} << 30);
        failed = !body && body.error().code == Code::kDeadline;
      },
      {.idle_timeout = 10s, .io_timeout = 100ms});
  RawPeer peer(server.port);
  peer.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nabc");
  EXPECT_TRUE(peer.sees_end());
  EXPECT_TRUE(eventually([&] { return failed.load(); }));
}

TEST(Server, TricklingBytesDoNotExtendABodysTimeWhereItIsLimited) {
  std::atomic<bool> failed = false;
  TestServer server([&](std::unique_ptr<Exchange> exchange) {
    exchange->limit_body_time(100ms);
    auto body = exchange->read_all(std::size_t{1} << 30);
    failed = !body && body.error().code == Code::kDeadline;
  });
  RawPeer peer(server.port);
  peer.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\n\r\n");
  EXPECT_TRUE(eventually([&] { return !peer.send("a"); }));
  EXPECT_TRUE(eventually([&] { return failed.load(); }));
}

// A chunk's own line brings nothing of the body.
TEST(Server, TricklingFramesDoNotExtendABodysTime) {
  TestServer server(echo, {.idle_timeout = 10s, .io_timeout = 100ms});
  RawPeer peer(server.port);
  peer.send("PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;x=");
  EXPECT_TRUE(eventually([&] {
    std::this_thread::sleep_for(10ms);  // else the line becomes longer than it may be
    return !peer.send("a");
  }));
}

TEST(BodyPace, GrantsASlowNetworkItsTimeAndATrickleNone) {
  const SteadyTime now = SteadyTime() + 1h;
  EXPECT_EQ(patience_with({}, 60s, now), 60s);
  EXPECT_EQ(patience_with({.bytes = 10, .waited = 50s}, 60s, now), 10'039ms);
  EXPECT_LE(patience_with({.bytes = 10, .waited = 61s}, 60s, now), 0ms);
  EXPECT_EQ(patience_with({.bytes = 1'000'000, .waited = 1h}, 60s, now), 60s);  // 278 a second
  EXPECT_EQ(patience_with({.bytes = 1'000'000, .waited = 1h, .end = now + 7s}, 60s, now), 7s);
  EXPECT_LE(patience_with({.end = now - 1s}, 60s, now), 0s);
}

TEST(Server, AClientThatGoesAwayFailsTheRead) {
  std::atomic<bool> failed = false;
  TestServer server([&](std::unique_ptr<Exchange> exchange) {
    auto body = exchange->read_all(std::size_t{1} << 30);
    failed = !body && body.error().code == Code::kUnavailable;
  });
  RawPeer peer(server.port);
  peer.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nabc");
  peer.close();
  EXPECT_TRUE(eventually([&] { return failed.load(); }));
}

TEST(Server, ALongPollIsAnsweredByAnotherThread) {
  Held held;
  TestServer server(held.handler(), {.max_workers = 1});
  RawPeer peer(server.port);
  peer.send(kGet);
  std::unique_ptr<Exchange> exchange = held.take();
  EXPECT_FALSE(exchange->is_closed());
  exchange->respond({.body = "late"});
  EXPECT_THAT(peer.read_answer(), testing::EndsWith("late"));
  peer.send(kGet);
  held.take()->respond({.body = "later"});
  EXPECT_THAT(peer.read_answer(), testing::EndsWith("later"));
}

TEST(Server, AHeldExchangeSeesThatItsPeerHasGone) {
  Held held;
  TestServer server(held.handler());
  RawPeer peer(server.port);
  peer.send(std::string(kGet) + std::string(kGet));  // with another request behind it
  std::unique_ptr<Exchange> exchange = held.take();
  EXPECT_FALSE(exchange->is_closed());
  peer.close();
  EXPECT_TRUE(eventually([&] { return exchange->is_closed(); }));
  exchange->respond({});
}

TEST(Server, AnExchangeMayOutliveItsServer) {
  Held held;
  auto server = std::make_unique<TestServer>(held.handler());
  RawPeer peer(server->port);
  peer.send(kGet);
  std::unique_ptr<Exchange> exchange = held.take();
  server.reset();
  EXPECT_TRUE(exchange->is_closed());
  std::array<std::byte, 1> out{};
  EXPECT_FALSE(exchange->start({}, std::nullopt) && exchange->write(out));
  EXPECT_TRUE(peer.sees_end());
}

TEST(Server, StopLetsRunningExchangesEnd) {
  Held held;
  TestServer server(held.handler());
  RawPeer idle(server.port);
  RawPeer peer(server.port);
  peer.send(kGet);
  std::unique_ptr<Exchange> exchange = held.take();
  std::jthread stopping([&] { server.server->stop(kPatience); });
  EXPECT_TRUE(idle.sees_end());
  exchange->respond({.body = "done"});
  const std::string answer = peer.read_to_end();
  EXPECT_THAT(answer, HasSubstr("Connection: close"));
  EXPECT_THAT(answer, testing::EndsWith("done"));
  stopping.join();
  EXPECT_FALSE(RawPeer(server.port).is_connected());
}

TEST(Server, EndsIdleConnectionsForNewOnesWhenAllAreTaken) {
  TestServer server(echo, {.max_connections = 3});
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (int i = 0; i < 5; ++i) {
    peers.push_back(std::make_unique<RawPeer>(server.port));
    peers.back()->send(kGet);
    EXPECT_THAT(peers.back()->read_answer(), HasSubstr("GET /")) << i;
  }
  EXPECT_TRUE(peers.front()->sees_end());
}

TEST(Server, EndsIdleConnectionsAsFastAsNewOnesCome) {
  constexpr int kCount = 30;
  TestServer server(echo, {.max_connections = kCount});
  std::vector<std::unique_ptr<RawPeer>> peers;
  SteadyTime first_in;
  for (int i = 0; i < 2 * kCount; ++i) {
    peers.push_back(std::make_unique<RawPeer>(server.port));
    peers.back()->send(kGet);
    ASSERT_THAT(peers.back()->read_answer(), HasSubstr("GET /")) << i;
    first_in = i == kCount ? SystemClock().steady_now() : first_in;  // the others are idle by then
  }
  EXPECT_LT(SystemClock().steady_now() - first_in, 600ms);  // with 50 ms each it would be 1,450
}

TEST(Server, LetsNewConnectionsWaitWhileAllAreBusy) {
  Held held;
  TestServer server(held.handler(), {.max_connections = 2});
  RawPeer first(server.port);
  first.send(kGet);
  std::unique_ptr<Exchange> one = held.take();
  RawPeer second(server.port);
  second.send(kGet);
  std::unique_ptr<Exchange> two = held.take();
  RawPeer third(server.port);
  third.send(kGet);
  one->respond({.body = "done"});
  EXPECT_THAT(first.read_answer(), testing::EndsWith("done"));
  std::unique_ptr<Exchange> three = held.take();
  three->respond({.body = "in the end"});
  EXPECT_THAT(third.read_answer(), testing::EndsWith("in the end"));
  two->respond({.body = "done"});
}

TEST(Server, StopDoesNotWaitForWhoHasAskedNothing) {
  TestServer server(echo);
  RawPeer half(server.port);
  half.send(std::string(kGet) + "GET / HT");
  half.read_answer();
  RawPeer body(server.port);
  body.send(std::string(kGet) + "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nabc");
  body.read_answer();
  RawPeer refused(server.port);
  refused.send("nonsense\r\n\r\nand more");
  refused.read_answer();
  const auto before = std::chrono::steady_clock::now();
  server.server->stop(kPatience);
  EXPECT_LT(std::chrono::steady_clock::now() - before, 500ms);
  EXPECT_TRUE(half.sees_end());
  EXPECT_TRUE(body.sees_end());
}

TEST(Server, StopCutsOffWhatOutlastsTheGrace) {
  TestServer server(
      [](std::unique_ptr<Exchange> exchange) { (void)exchange->read_all(std::size_t{1} << 30); });
  RawPeer peer(server.port);
  peer.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nabc");
  server.server->stop(20ms);
  EXPECT_TRUE(peer.sees_end());
}

TEST(Server, ListensAndUnlistensWhileItRuns) {
  TestServer server([](std::unique_ptr<Exchange> exchange) {
    exchange->respond({.body = exchange->request().listener});
  });
  const auto port = server.server->listen("127.0.0.1", 0, "second");
  ASSERT_TRUE(port);
  RawPeer peer(*port);
  peer.send(kGet);
  EXPECT_THAT(peer.read_answer(), testing::EndsWith("second"));
  server.server->unlisten("127.0.0.1", *port);
  EXPECT_TRUE(peer.sees_end());
  EXPECT_FALSE(RawPeer(*port).is_connected());
  RawPeer first(server.port);
  first.send(kGet);
  EXPECT_THAT(first.read_answer(), testing::EndsWith("test"));
  EXPECT_TRUE(server.server->listen("127.0.0.1", *port, "third"));
  server.server->unlisten("127.0.0.9", 1);
  server.server->unlisten("nonsense", 1);
}

TEST(Server, NamesAnAddressThatIsInUse) {
  TestServer server(echo);
  const auto again = server.server->listen("127.0.0.1", server.port, "again");
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::kConflict);
  EXPECT_THAT(again.error().message, HasSubstr(std::to_string(server.port)));
  EXPECT_EQ(server.server->listen("example.com", 0, "").error().code, Code::kInvalidArgument);
}

TEST(Server, AStopWaitsForAnAnswerUnderWayButNotForAPeerThatHasStopped) {
  std::atomic<int> begun = 0;
  TestServer server([&](std::unique_ptr<Exchange> exchange) {
    ++begun;
    std::array<std::byte, 16> some;
    (void)exchange->read_body(some);
    (void)exchange->read_body(some);
    exchange->respond({.body = "done"});
  });
  constexpr std::string_view kPut = "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999\r\n\r\nx";
  RawPeer stuck(server.port);
  stuck.send(kPut);
  RawPeer going(server.port);
  going.send(kPut);
  ASSERT_TRUE(eventually([&] { return begun == 2; }));
  std::jthread stopping([&] { server.server->stop(30s); });
  std::this_thread::sleep_for(20ms);
  going.send("y");
  EXPECT_THAT(going.read_until("done"), testing::EndsWith("done"));
  going.close();
  EXPECT_EQ(stuck.read_to_end(), "");
  stopping.join();  // long before 30 s
}

TEST(Server, ServesTwoHundredConnectionsAtOnce) {
  constexpr int kPeers = 200;
  std::latch all_here(kPeers);
  TestServer server(
      [&](std::unique_ptr<Exchange> exchange) {
        all_here.arrive_and_wait();  // every one of them is in a handler now
        exchange->respond({.body = exchange->request().path});
      },
      {.max_workers = 2 * kPeers});  // one client gets half of them
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (int i = 0; i < kPeers; ++i) {
    peers.push_back(std::make_unique<RawPeer>(server.port));
    peers.back()->send("GET /" + std::to_string(i) + " HTTP/1.1\r\nHost: h\r\n\r\n");
  }
  for (int i = 0; i < kPeers; ++i) {
    EXPECT_THAT(peers[static_cast<std::size_t>(i)]->read_answer(),
                testing::EndsWith("/" + std::to_string(i)));
  }
}

}  // namespace
}  // namespace trainyard::http
