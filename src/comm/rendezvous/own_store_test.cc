// SPDX-License-Identifier: Apache-2.0
#include "comm/rendezvous/own_store.h"

#include <thread>

#include <gtest/gtest.h>

namespace trainyard::comm {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

struct Served {
  Endpoint endpoint;
  std::unique_ptr<OwnStore> store;
};

// At a port that nobody had a moment ago: somebody may have it by now.
Served serve() {
  for (int tries = 0; tries < 100; ++tries) {
    const std::uint16_t port = listen_tcp({"127.0.0.1", 0})->port;
    const Endpoint endpoint{"127.0.0.1", port};
    auto store = OwnStore::open(endpoint, true, seconds(20));
    if (store) {
      return {endpoint, std::move(*store)};
    }
  }
  return {};
}

TEST(OwnStore, LingersForThoseWhoHaveNotComeYet) {
  Served served = serve();
  ASSERT_NE(served.store, nullptr);
  ASSERT_TRUE(served.store->store().claim("size", "two sizes"));
  std::jthread failed([&] {
    served.store->linger(3, hours(1));
    served.store.reset();
  });
  for (int other = 0; other < 2; ++other) {
    auto late = OwnStore::open(served.endpoint, false, seconds(20));
    ASSERT_TRUE(late) << late.error().message;
    EXPECT_EQ(*(*late)->store().claim("size", "mine"), "two sizes");
  }
  failed.join();  // all have been there, and are gone
}

TEST(OwnStore, LingersAsLongAsItIsToldForOneWhoNeverComes) {
  Served served = serve();
  ASSERT_NE(served.store, nullptr);
  ASSERT_TRUE(served.store->store().has("size"));
  const auto begin = std::chrono::steady_clock::now();
  served.store->linger(2, milliseconds(50));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(50));
}

// Who gives up waiting makes a new connection, and is still there.
TEST(OwnStore, TakesNoNewConnectionForAnotherClient) {
  Served served = serve();
  ASSERT_NE(served.store, nullptr);
  RendezvousStore& store = served.store->store();
  EXPECT_EQ(store.wait_for({"never"}, milliseconds(1)).error().code, Code::kDeadline);
  EXPECT_FALSE(*store.has("never"));
  const auto begin = std::chrono::steady_clock::now();
  served.store->linger(2, milliseconds(50));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(50));
}

TEST(OwnStore, IsAtAPortThatAllKnow) {
  EXPECT_EQ(OwnStore::open({"127.0.0.1", 0}, true, seconds(1)).error().code,
            Code::kInvalidArgument);
}

}  // namespace
}  // namespace trainyard::comm
