// SPDX-License-Identifier: Apache-2.0
// Bodies that are larger than memory should be: they flow in pieces, and a slow side slows the
// other.
#include <atomic>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hash.h"
#include "http/client.h"
#include "http/test_peer.h"

namespace trainyard::http {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::size_t kPiece = std::size_t{256} << 10;
constexpr std::uint64_t kLarge = std::uint64_t{64} << 20;

// Byte i of the stream is a function of i, so that loss and reordering show.
void fill_pattern(std::span<std::byte> out, std::uint64_t offset) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<std::byte>((offset + i) * 131 >> 7);
  }
}

// A body that was announced to be large and stops after a few bytes, and the room that it was
// given.
class FewBytes final : public Exchange {
 public:
  const Request& request() const override { return request_; }
  std::optional<std::uint64_t> body_length() const override { return kLarge; }
  Result<std::size_t> read_body(std::span<std::byte> out) override {
    room = std::max(room, out.size());
    return std::exchange(left_, 0);
  }
  void respond(Response) override {}
  Result<void> start(Response, std::optional<std::uint64_t>) override { return {}; }
  Result<void> write(std::span<const std::byte>) override { return {}; }
  Result<void> finish() override { return {}; }
  bool is_closed() const override { return false; }

  std::size_t room = 0;

 private:
  const Request request_;
  std::size_t left_ = 100;
};

TEST(ReadAll, TakesNoMemoryForWhatIsOnlyAnnounced) {
  FewBytes exchange;
  const Result<std::string> body = exchange.read_all(kLarge);
  ASSERT_TRUE(body);
  EXPECT_EQ(body->size(), 100U);
  EXPECT_LE(exchange.room, std::size_t{16} << 10);
}

// Hashes what comes, and knows what the pattern's hash is.
class PatternCheck {
 public:
  void take(std::span<const std::byte> bytes) {
    expected_.resize(bytes.size());
    fill_pattern(expected_, count_);
    is_right_ = is_right_ && std::equal(bytes.begin(), bytes.end(), expected_.begin());
    count_ += bytes.size();
  }
  std::uint64_t count() const { return count_; }
  bool is_right() const { return is_right_; }

 private:
  std::vector<std::byte> expected_;
  std::uint64_t count_ = 0;
  bool is_right_ = true;
};

void receive_pattern(std::unique_ptr<Exchange> exchange) {
  PatternCheck check;
  std::vector<std::byte> piece(kPiece);
  while (true) {
    auto got = exchange->read_body(piece);
    if (!got || *got == 0) {
      break;
    }
    check.take(std::span(piece).first(*got));
  }
  exchange->respond(
      {.status = check.is_right() ? 200 : 409, .body = std::to_string(check.count())});
}

void send_pattern(std::unique_ptr<Exchange> exchange) {
  const bool has_length = exchange->request().path != "/chunked";
  if (!exchange->start({}, has_length ? std::optional(kLarge) : std::nullopt)) {
    return;
  }
  std::vector<std::byte> piece(kPiece);
  for (std::uint64_t sent = 0; sent < kLarge; sent += piece.size()) {
    fill_pattern(piece, sent);
    if (!exchange->write(piece)) {
      return;
    }
  }
  (void)exchange->finish();
}

TEST(ServerStream, TakesALargeUpload) {
  TestServer server(receive_pattern);
  const auto client = Client::make();
  std::uint64_t given = 0;
  ClientRequest request{.method = "PUT", .url = server.url("/")};
  request.upload_length = kLarge;
  request.upload = [&](std::span<std::byte> out) -> Result<std::size_t> {
    fill_pattern(out, given);
    given += out.size();
    return out.size();
  };
  const auto response = client->send(request);
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(response->body, std::to_string(kLarge));
}

class StreamDownloads : public testing::TestWithParam<const char*> {};

TEST_P(StreamDownloads, ArriveWhole) {
  TestServer server(send_pattern);
  const auto client = Client::make();
  PatternCheck check;
  ClientRequest request{.url = server.url(GetParam())};
  request.download = [&](std::span<const std::byte> bytes) -> Result<void> {
    check.take(bytes);
    return {};
  };
  const auto response = client->send(request);
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(check.count(), kLarge);
  EXPECT_TRUE(check.is_right());
  EXPECT_TRUE(response->body.empty());
}

INSTANTIATE_TEST_SUITE_P(Framing, StreamDownloads, testing::Values("/length", "/chunked"));

TEST(ServerStream, HttpOneZeroGetsAChunklessBodyThatEndsWithTheConnection) {
  TestServer server([](std::unique_ptr<Exchange> exchange) {
    ASSERT_TRUE(exchange->start({}, std::nullopt));
    ASSERT_TRUE(exchange->write(std::as_bytes(std::span("abc", 3))));
    ASSERT_TRUE(exchange->finish());
  });
  RawPeer peer(server.port);
  peer.send("GET / HTTP/1.0\r\n\r\n");
  const std::string answer = peer.read_to_end();
  EXPECT_THAT(answer, HasSubstr("Connection: close\r\n\r\n"));
  EXPECT_THAT(answer, testing::EndsWith("\r\n\r\nabc"));
}

TEST(ServerStream, AReaderThatStopsReadingStopsTheWriter) {
  std::atomic<std::uint64_t> written = 0;
  std::atomic<bool> failed = false;
  TestServer server(
      [&](std::unique_ptr<Exchange> exchange) {
        ASSERT_TRUE(exchange->start({}, kLarge));
        const std::vector<std::byte> piece(kPiece);
        while (true) {
          const auto result = exchange->write(piece);
          if (!result) {
            failed = result.error().code == Code::kDeadline;
            return;
          }
          written += piece.size();
        }
      },
      {.io_timeout = 200ms});
  RawPeer peer(server.port);
  peer.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_TRUE(eventually([&] { return failed.load(); }));
  EXPECT_LT(written, kLarge / 2);  // what the kernel buffers, no more
}

TEST(ServerStream, ASlowReaderOfAWholeAnswerHoldsNoWorker) {
  TestServer server(
      [](std::unique_ptr<Exchange> exchange) {
        const bool is_big = exchange->request().path == "/big";
        exchange->respond({.body = std::string(is_big ? kLarge / 2 : 1, 'x')});
      },
      {.max_workers = 1});
  RawPeer slow(server.port);
  slow.send("GET /big HTTP/1.1\r\nHost: h\r\n\r\n");
  const std::string head = slow.read_until("\r\n\r\n");
  RawPeer other(server.port);
  other.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_THAT(other.read_answer(), testing::EndsWith("\r\n\r\nx"));
  EXPECT_EQ(slow.read_exactly(kLarge / 2).size(), kLarge / 2);
  slow.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_THAT(slow.read_answer(), testing::EndsWith("\r\n\r\nx"));
}

TEST(ServerStream, AnAnswerThatBreaksOffIsNotTakenForWhole) {
  TestServer server([](std::unique_ptr<Exchange> exchange) {
    const bool has_length = exchange->request().path == "/length";
    ASSERT_TRUE(exchange->start({}, has_length ? std::optional(10u) : std::nullopt));
    ASSERT_TRUE(exchange->write(std::as_bytes(std::span("abc", 3))));
  });
  const auto client = Client::make();
  EXPECT_EQ(client->send({.url = server.url("/length")}).error().code, Code::kUnavailable);
  EXPECT_EQ(client->send({.url = server.url("/chunked")}).error().code, Code::kUnavailable);
}

TEST(ServerStream, AnAnswerKeepsToItsAnnouncedLength) {
  std::atomic<int> refused = 0;
  TestServer server([&](std::unique_ptr<Exchange> exchange) {
    ASSERT_TRUE(exchange->start({}, 2));
    refused += exchange->write(std::as_bytes(std::span("abc", 3))) ? 0 : 1;
    refused += exchange->finish() ? 0 : 1;
  });
  EXPECT_FALSE(Client::make()->send({.url = server.url()}));
  EXPECT_TRUE(eventually([&] { return refused == 2; }));
}

TEST(ServerStream, HeadOfAStreamHasItsLengthAndKeepsTheConnection) {
  TestServer server(send_pattern);
  RawPeer peer(server.port);
  for (int i = 0; i < 2; ++i) {
    peer.send("HEAD /length HTTP/1.1\r\nHost: h\r\n\r\n");
    const std::string head = peer.read_until("\r\n\r\n");
    EXPECT_THAT(head, StartsWith("HTTP/1.1 200 "));
    EXPECT_THAT(head, HasSubstr("Content-Length: " + std::to_string(kLarge)));
  }
}

}  // namespace
}  // namespace trainyard::http
