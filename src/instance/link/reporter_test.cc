// SPDX-License-Identifier: Apache-2.0
#include "instance/link/reporter.h"

#include <atomic>
#include <chrono>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "instance/testing/proving.h"

namespace trainyard::instance {
namespace {

using std::chrono::seconds;

constexpr std::string_view kServer = "http://server";

// Acknowledges `acknowledged`, whatever it is sent.
class Peer final : public http::Client {
 public:
  Result<http::Response> send(const http::ClientRequest& request) override {
    ++requests;
    const std::string target = request.url.substr(kServer.size());
    YARD_TRY(const wire::Claim claim,
             proven_claim(request.method, target, request.headers, request.body));
    return proven_answer(claim,
                         {.status = 200,
                          .headers = {},
                          .body = nlohmann::json{{"acknowledged", acknowledged.load()}}.dump()});
  }

  std::atomic<int> requests = 0;
  std::atomic<std::int64_t> acknowledged = 0;
};

// While a server's disk stalls, what is sent again is answered at once, by the old number.
TEST(Reporter, PausesBeforeItSendsAgainWhatTheServerHasNotTaken) {
  const TempDir folder = *TempDir::make();
  SystemClock clock;
  Peer peer;
  ServerLink link(peer, std::string(kServer), test_speaker());
  Reporter reporter(link, clock, folder.path() / "spool", [] {});
  reporter.message("stored slowly");
  EXPECT_FALSE(reporter.drain(seconds(1)));
  EXPECT_LE(peer.requests.load(), 10);
  peer.acknowledged = 1;
  EXPECT_TRUE(reporter.drain(seconds(20)));
}

}  // namespace
}  // namespace trainyard::instance
