// SPDX-License-Identifier: Apache-2.0
#include "comm/rendezvous/store.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "comm/rendezvous/memory_store.h"
#include "comm/rendezvous/store_client.h"
#include "comm/rendezvous/store_server.h"

namespace trainyard::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StoreTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) {
      auto server = StoreServer::listen({"127.0.0.1", 0});
      ASSERT_TRUE(server);
      server_ = std::move(*server);
    }
  }

  std::shared_ptr<RendezvousStore> client() {
    if (server_ == nullptr) {
      return memory_;
    }
    return *StoreClient::connect({"127.0.0.1", server_->port()}, seconds(5));
  }

  std::shared_ptr<MemoryStore> memory_ = std::make_shared<MemoryStore>();
  std::unique_ptr<StoreServer> server_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, StoreTest, ::testing::Bool());

TEST_P(StoreTest, TheFirstClaimStands) {
  EXPECT_EQ(*client()->claim("k", "one"), "one");
  EXPECT_EQ(*client()->claim("k", "two"), "one");
  EXPECT_TRUE(*client()->has("k"));
  EXPECT_FALSE(*client()->has("other"));
}

TEST_P(StoreTest, WaitsForWhatComesLater) {
  std::jthread later([store = client()] {
    std::this_thread::sleep_for(milliseconds(30));
    static_cast<void>(store->claim("b", "2"));
  });
  const auto store = client();
  ASSERT_TRUE(store->claim("a", "1"));
  const auto values = store->wait_for({"b", "a"}, seconds(10));
  ASSERT_TRUE(values) << values.error().message;
  EXPECT_THAT(*values, ElementsAre("2", "1"));
}

TEST_P(StoreTest, GivesUpAndIsGoodForTheNextCall) {
  const auto store = client();
  EXPECT_EQ(store->wait_for({"never"}, milliseconds(20)).error().code, Code::kDeadline);
  EXPECT_FALSE(*store->has("never"));
}

TEST_P(StoreTest, ServesManyAtOnce) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([store = client(), i] {
      const auto key = [](int n) { return "key " + std::to_string(n); };
      ASSERT_TRUE(store->claim(key(i), std::string(1000, 'x')));
      ASSERT_TRUE(store->wait_for({key(0), key(7), key(15)}, seconds(20)));
    });
  }
}

TEST(StoreServer, ClosesForeignConnectionsAndGoesOn) {
  const auto server = *StoreServer::listen({"127.0.0.1", 0});
  const Fd stranger = *connect_tcp({"127.0.0.1", server->port()}, seconds(5), false);
  ASSERT_TRUE(write_all(stranger.get(), "GET / HTTP/1.1\r\n\r\n"));
  char answer[256];
  ASSERT_TRUE(*wait_ready(stranger.get(), Ready::kRead, seconds(5)));
  EXPECT_GE(::read(stranger.get(), answer, sizeof(answer)), 0);
  EXPECT_TRUE((*StoreClient::connect({"127.0.0.1", server->port()}, seconds(5)))->claim("k", "v"));
}

TEST(StoreServer, KeepsNoMoreThanItsLimits) {
  const auto server = *StoreServer::listen({"127.0.0.1", 0}, {.keys = 3, .bytes = 100});
  const auto client = *StoreClient::connect({"127.0.0.1", server->port()}, seconds(20));
  const auto refused = [&](const std::string& key, const std::string& value) {
    const auto held = client->claim(key, value);
    return !held && held.error().code == Code::kExhausted &&
           held.error().message.find("full") != std::string::npos;
  };
  EXPECT_EQ(*client->claim("a", std::string(90, 'x')), std::string(90, 'x'));
  EXPECT_TRUE(refused("b", std::string(9, 'y')));  // 101 bytes
  EXPECT_EQ(*client->claim("b", "12345678"), "12345678");
  EXPECT_TRUE(refused("c", ""));
  EXPECT_EQ(*client->claim("", ""), "");
  EXPECT_TRUE(refused("d", ""));
  EXPECT_EQ(*client->claim("b", "later"), "12345678");  // what is there is still told
}

TEST(StoreClient, SaysWhomItCouldNotReach) {
  const auto listener = *listen_tcp({"127.0.0.1", 0});
  const std::uint16_t free_port = listener.port;
  const auto refused = StoreClient::connect({"127.0.0.2", free_port}, milliseconds(50));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr(to_string(Endpoint{"127.0.0.2", free_port})));
}

TEST(StoreClient, TellsThatTheServersProcessHasEnded) {
  auto server = *StoreServer::listen({"127.0.0.1", 0});
  const auto client = *StoreClient::connect({"127.0.0.1", server->port()}, seconds(5));
  ASSERT_TRUE(client->claim("k", "v"));
  std::jthread ends([&] { server.reset(); });
  EXPECT_EQ(client->wait_for({"never"}, seconds(10)).error().code, Code::kUnavailable);
}

TEST(Endpoint, IsReadAndWritten) {
  EXPECT_EQ(to_string(*parse_endpoint("[fe80::1]:80")), "[fe80::1]:80");
  EXPECT_EQ(parse_endpoint("algo-1:29500")->port, 29500);
  for (const char* bad : {"", "a", "a:", ":1", "a:70000", "fe80::1:80", "a:1x"}) {
    EXPECT_FALSE(parse_endpoint(bad)) << bad;
  }
}

}  // namespace
}  // namespace trainyard::comm
