// SPDX-License-Identifier: Apache-2.0
// The S3 face over a DirectoryStore in a temporary folder, behind a real HTTP server that verifies
// signatures, on a free loopback port; with a client for it, and requests by hand.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/encoding.h"
#include "base/hash.h"
#include "http/client.h"
#include "http/server.h"
#include "http/sigv4.h"
#include "s3/client/s3_client.h"
#include "store/front.h"
#include "store/s3_service.h"
#include "testing/s3_support.h"

namespace trainyard {

class S3ServerTest : public s3::StoreFixture {
 protected:
  static constexpr const char* kKey = "AKIDEXAMPLE";
  static constexpr const char* kSecret = "a-secret-of-the-test";

  void SetUp() override {
    StoreFixture::SetUp();
    service = std::make_unique<store::S3Service>(
        *store, store::Options{.region = "us-east-1", .account_id = "123456789012"}, clock);
    auto started = http::Server::start(
        {}, [this](std::unique_ptr<http::Exchange> exchange) { answer(std::move(exchange)); });
    ASSERT_TRUE(started);
    server = std::move(*started);
    port = server->listen("127.0.0.1", 0, "test").value_or(0);
    auto made = s3::S3Client::make({.endpoint = "http://" + host(),
                                    .region = "us-east-1",
                                    .credentials =
                                        [](bool) {
                                          return http::Credentials{kKey, kSecret};
                                        },
                                    .max_attempts = 2,
                                    .first_delay = Duration(1)},
                                   *http_client, clock, random);
    ASSERT_TRUE(made);
    client = std::move(*made);
  }
  void TearDown() override {
    if (server != nullptr) {
      server->stop(std::chrono::seconds(5));
    }
  }

  void answer(std::unique_ptr<http::Exchange> exchange) {
    const auto lookup = [](std::string_view id) {
      return id == kKey ? std::optional(http::KnownKey{.secret_access_key = kSecret})
                        : std::nullopt;
    };
    store::Front(*service, lookup, clock).handle(std::move(exchange));
  }

  std::string host() const { return "127.0.0.1:" + std::to_string(port); }

  using Fields = std::vector<std::pair<std::string, std::string>>;
  // A signed request by hand. The signature covers the body, or what x-amz-content-sha256 says.
  http::Response send(const std::string& method, const std::string& path, const std::string& query,
                      const std::string& body = {}, const Fields& fields = {}) {
    http::Request head{
        .method = method, .path = path, .query = query, .headers = {}, .peer = {}, .listener = {}};
    head.headers.set("Host", host());
    for (const auto& [name, value] : fields) {
      head.headers.set(name, value);
    }
    const std::string payload_hash(head.headers.get("x-amz-content-sha256", sha256_hex(body)));
    http::sign(head, payload_hash, {kKey, kSecret}, {.region = "us-east-1", .service = "s3"},
               clock.now());
    return send_as_is(head, body);
  }
  http::Response send_as_is(const http::Request& head, const std::string& body = {}) {
    const auto response = http_client->send(
        {.method = head.method,
         .url = "http://" + host() + head.path + (head.query.empty() ? "" : "?" + head.query),
         .headers = head.headers,
         .body = body});
    EXPECT_TRUE(response) << response.error().message;
    return response ? *response : http::Response{.status = 0, .headers = {}, .body = {}};
  }
  // "404 NoSuchKey", or "200".
  static std::string outcome(const http::Response& response) {
    const std::size_t begin = response.body.find("<Code>");
    const std::size_t end = response.body.find("</Code>");
    return std::to_string(response.status) +
           (begin == std::string::npos || response.status < 300
                ? ""
                : " " + response.body.substr(begin + 6, end - begin - 6));
  }

  std::unique_ptr<http::Client> http_client = http::Client::make();
  std::unique_ptr<store::S3Service> service;
  std::unique_ptr<http::Server> server;
  std::uint16_t port = 0;
  std::unique_ptr<s3::S3Client> client;
};

}  // namespace trainyard
