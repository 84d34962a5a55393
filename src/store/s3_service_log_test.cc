// SPDX-License-Identifier: Apache-2.0
// What the owner of the server reads of requests that fail.
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/log.h"
#include "http/test_peer.h"
#include "testing/s3_server.h"

namespace trainyard::store {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// The store writes a body in pieces of this size.
constexpr std::size_t kStored = std::size_t{256} << 10;

struct S3ServiceLog : S3ServerTest {
  void SetUp() override {
    S3ServerTest::SetUp();
    ASSERT_TRUE(start_log(LogLevel::kInfo, log_file()));
  }
  void TearDown() override {
    S3ServerTest::TearDown();
    static_cast<void>(start_log(LogLevel::kInfo));
  }

  bool has_begun = false;
  Path log_file() const { return folder.path() / "log"; }
  // The store is in the middle of a put.
  void wait_for_the_first_bytes() {
    const SteadyTime deadline = clock.steady_now() + std::chrono::seconds(5);
    while (!(has_begun = content_files() > 0) && clock.steady_now() < deadline) {
      std::this_thread::yield();
    }
  }

  // All of it: no request is under way any more.
  std::string log() {
    server->stop(std::chrono::seconds(5));
    return read_file(log_file()).value_or("(no log)");
  }
};

TEST_F(S3ServiceLog, HasALineForAnObjectThatIsBroken) {
  send("PUT", "/bucket/k", "", "hello");
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder.path() / "store" / "data")) {
    if (entry.is_regular_file()) {
      std::filesystem::remove(entry.path());
    }
  }
  EXPECT_EQ(outcome(send("GET", "/bucket/k", "")), "500 InternalError");
  EXPECT_THAT(log(), HasSubstr("s3: GET /bucket/k: the content file of 'k' is missing"));
}

TEST_F(S3ServiceLog, HasNoLineForABodyWhoseChunksAreBroken) {
  http::Request head{.method = "PUT", .path = "/bucket/k"};
  head.headers.set("Host", host());
  http::sign(head, http::kUnsignedPayload, {kKey, kSecret},
             {.region = "us-east-1", .service = "s3"}, clock.now());
  std::string wire = "PUT /bucket/k HTTP/1.1\r\nTransfer-Encoding: chunked\r\n";
  for (const auto& [name, value] : head.headers.fields()) {
    wire += name + ": " + value + "\r\n";
  }
  http::RawPeer peer(port);
  peer.send(wire + "\r\nzz\r\n");
  const std::string answer = peer.read_answer();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(answer, HasSubstr("<Code>IncompleteBody</Code>"));
  EXPECT_THAT(log(), Not(HasSubstr("s3: PUT")));
}

TEST_F(S3ServiceLog, HasNoLineForAClientThatHangsUp) {
  http::Request head{.method = "PUT", .path = "/bucket/k"};
  head.headers.set("Host", host());
  http::sign(head, http::kUnsignedPayload, {kKey, kSecret},
             {.region = "us-east-1", .service = "s3"}, clock.now());
  std::size_t sent = 0;
  const auto response =
      http_client->send({.method = "PUT",
                         .url = "http://" + host() + head.path,
                         .headers = head.headers,
                         .upload = [&](std::span<std::byte> out) -> Result<std::size_t> {
                           if (sent > kStored) {
                             wait_for_the_first_bytes();
                             return Error{Code::kCancelled, "enough"};
                           }
                           sent += out.size();
                           return out.size();
                         },
                         .upload_length = std::uint64_t{1} << 20});
  ASSERT_FALSE(response);
  EXPECT_TRUE(has_begun);
  EXPECT_THAT(log(), Not(HasSubstr("s3: PUT")));
  EXPECT_FALSE(store->head("bucket", "k"));
}

}  // namespace
}  // namespace trainyard::store
