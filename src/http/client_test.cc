// SPDX-License-Identifier: Apache-2.0
#include "http/client.h"

#include <atomic>
#include <latch>
#include <mutex>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/test_peer.h"

namespace trainyard::http {
namespace {

using testing::HasSubstr;
using testing::Not;

void echo_headers(std::unique_ptr<Exchange> exchange) {
  const Request& request = exchange->request();
  std::string text = request.method + " " + request.path + "?" + request.query + "\n";
  for (const auto& [name, value] : request.headers.fields()) {
    text += name + "=" + value + "\n";
  }
  exchange->respond({.body = text});
}

TEST(Client, SendsTheUrlAndHeadersAsTheyAre) {
  TestServer server(echo_headers);
  ClientRequest request{.url = server.url("/a/../b//c%2f%20?x=%2B&y")};
  request.headers.add("X-Empty", "");
  request.headers.add("x-a", "1");
  const auto response = Client::make()->send(request);
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->body, "GET /a/../b//c%2f%20?x=%2B&y\nHost=127.0.0.1:" +
                                std::to_string(server.port) + "\nX-Empty=\nx-a=1\n");
}

TEST(Client, SendsAndReceivesBodies) {
  TestServer server(echo);
  const auto client = Client::make();
  for (const char* method : {"POST", "PUT", "DELETE", "GET"}) {
    const auto response =
        client->send({.method = method, .url = server.url("/x"), .body = "payload"});
    ASSERT_TRUE(response) << response.error().message;
    EXPECT_EQ(response->status, 200);
    EXPECT_EQ(response->body, std::string(method) + " /x payload");
  }
}

TEST(Client, HeadHasHeadersAndNoBody) {
  TestServer server(echo);
  const auto response = Client::make()->send({.method = "HEAD", .url = server.url("/x")});
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->headers.get("content-length"), "8");
  EXPECT_TRUE(response->body.empty());
}

TEST(Client, UsesItsConnectionAgain) {
  std::mutex mutex;
  std::set<std::string> peers;
  TestServer server([&](std::unique_ptr<Exchange> exchange) {
    const std::scoped_lock lock(mutex);
    peers.insert(exchange->request().peer);
    exchange->respond({});
  });
  const auto client = Client::make();
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(client->send({.url = server.url()}));
  }
  EXPECT_EQ(peers.size(), 1u);
}

TEST(Client, NeitherTakesNorLeavesAConnectionForARequestThatKeepsNone) {
  std::mutex mutex;
  std::vector<std::string> peers;
  TestServer server([&](std::unique_ptr<Exchange> exchange) {
    const std::scoped_lock lock(mutex);
    peers.push_back(exchange->request().peer);
    exchange->respond({});
  });
  const auto client = Client::make();
  for (const bool keep : {true, false, false, true}) {
    EXPECT_TRUE(client->send({.url = server.url(), .keep = keep}));
  }
  ASSERT_EQ(peers.size(), 4U);
  EXPECT_EQ(std::set(peers.begin(), peers.end()).size(), 3U);
  EXPECT_EQ(peers[3], peers[0]);
}

TEST(Client, ServesManyThreads) {
  TestServer server(echo);
  const auto client = Client::make();
  std::atomic<int> right = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 16; ++i) {
      threads.emplace_back([&, i] {
        for (int j = 0; j < 10; ++j) {
          const std::string text = std::to_string(i * 100 + j);
          const auto response =
              client->send({.method = "POST", .url = server.url("/"), .body = text});
          right += response && response->body == "POST / " + text;
        }
      });
    }
  }
  EXPECT_EQ(right, 160);
}

TEST(Client, SurvivesAServerThatClosedTheIdleConnection) {
  TestServer server(echo, {.idle_timeout = 20ms});
  const auto client = Client::make();
  ASSERT_TRUE(client->send({.url = server.url()}));
  RawPeer witness(server.port);
  EXPECT_TRUE(witness.sees_end());  // the server has swept by now
  EXPECT_TRUE(client->send({.url = server.url()}));
}

TEST(Client, ErrorBodiesComeInTheResponseEvenWithADownload) {
  TestServer server([](std::unique_ptr<Exchange> exchange) {
    exchange->respond({.status = 404, .body = std::string(3 << 20, 'e')});
  });
  ClientRequest request{.url = server.url()};
  request.download = [](std::span<const std::byte>) -> Result<void> {
    return Error{Code::kInternal, "called"};
  };
  const auto response = Client::make()->send(request);
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->status, 404);
  EXPECT_EQ(response->body.size(), std::size_t{1} << 20);
}

TEST(Client, ReturnsTheErrorOfACallback) {
  TestServer server(echo);
  ClientRequest down{.url = server.url()};
  down.download = [](std::span<const std::byte>) -> Result<void> {
    return Error{Code::kExhausted, "disk full"};
  };
  const auto client = Client::make();
  auto response = client->send(down);
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Code::kExhausted);
  EXPECT_THAT(response.error().message, HasSubstr("disk full"));

  ClientRequest up{.method = "PUT", .url = server.url()};
  up.upload_length = 100;
  up.upload = [](std::span<std::byte>) -> Result<std::size_t> {
    return Error{Code::kCorrupt, "file changed"};
  };
  EXPECT_EQ(client->send(up).error().code, Code::kCorrupt);
  up.upload = [](std::span<std::byte>) -> Result<std::size_t> { return std::size_t{0}; };
  EXPECT_THAT(client->send(up).error().message, HasSubstr("after 0 of 100 bytes"));
}

TEST(Client, AsksBeforeALargeBodyOnly) {
  TestServer server(echo_headers);
  const auto client = Client::make();
  ClientRequest request{.method = "PUT", .url = server.url()};
  request.upload = [](std::span<std::byte> out) -> Result<std::size_t> { return out.size(); };
  request.upload_length = 1000;
  EXPECT_THAT(client->send(request)->body, Not(HasSubstr("Expect")));
  request.upload_length = 2 << 20;
  EXPECT_THAT(client->send(request)->body, HasSubstr("Expect=100-continue"));
}

TEST(Client, DoesNotFollowRedirects) {
  TestServer server([](std::unique_ptr<Exchange> exchange) {
    Response response{.status = 302};
    response.headers.add("Location", "http://127.0.0.1:1/");
    exchange->respond(std::move(response));
  });
  const auto response = Client::make()->send({.url = server.url()});
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 302);
}

TEST(Client, ARefusedConnectionIsUnavailableAndHidesTheQuery) {
  std::uint16_t port = 0;
  { port = TestServer(echo).port; }
  const auto response = Client::make()->send(
      {.url = "http://127.0.0.1:" + std::to_string(port) + "/a?X-Amz-Signature=secret"});
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Code::kUnavailable);
  EXPECT_THAT(response.error().message, HasSubstr("/a"));
  EXPECT_THAT(response.error().message, Not(HasSubstr("secret")));
}

TEST(Client, RefusesOtherSchemesAndBrokenHeaders) {
  const auto client = Client::make();
  EXPECT_EQ(client->send({.url = "file:///etc/passwd"}).error().code, Code::kInvalidArgument);
  ClientRequest request{.url = "http://127.0.0.1:1/"};
  request.headers.add("X", "a\r\nY: b");
  EXPECT_EQ(client->send(request).error().code, Code::kInvalidArgument);
}

// A server that takes requests and never answers.
struct Silent {
  std::mutex mutex;
  std::vector<std::unique_ptr<Exchange>> held;
  std::latch arrived{1};
  TestServer server{[this](std::unique_ptr<Exchange> exchange) {
    const std::scoped_lock lock(mutex);
    held.push_back(std::move(exchange));
    arrived.count_down();
  }};
};

TEST(Client, TimesOut) {
  Silent silent;
  const auto client = Client::make();
  EXPECT_EQ(client->send({.url = silent.server.url(), .timeout = 50ms}).error().code,
            Code::kDeadline);
}

TEST(Client, NoticesAStall) {
  Silent silent;
  const auto client = Client::make();
  const auto response = client->send({.url = silent.server.url(), .stall_timeout = 50ms});
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Code::kDeadline);
  EXPECT_THAT(response.error().message, HasSubstr("no byte for 50 ms"));
}

TEST(Client, AStopEndsTheCallAtOnce) {
  Silent silent;
  const auto client = Client::make();
  std::stop_source stop;
  std::jthread stopper([&] {
    silent.arrived.wait();
    stop.request_stop();
  });
  const auto response = client->send({.url = silent.server.url(), .stop = stop.get_token()});
  const auto ended = std::chrono::steady_clock::now();
  stopper.join();
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Code::kCancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - ended, 1s);
  EXPECT_EQ(client->send({.url = silent.server.url(), .stop = stop.get_token()}).error().code,
            Code::kCancelled);
}

}  // namespace
}  // namespace trainyard::http
