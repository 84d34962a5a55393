// SPDX-License-Identifier: Apache-2.0
// S3Client against servers that fail, cut, stall and lie.
#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/encoding.h"
#include "s3/client/s3_client.h"
#include "testing/no_threads.h"
#include "testing/s3_support.h"
#include "testing/scripted_server.h"

namespace trainyard::s3 {
namespace {

using Asked = ScriptedServer::Asked;
using testing::HasSubstr;

constexpr std::size_t kChunk = 100'000;

void answer_error(http::Exchange& exchange, int status, const std::string& name) {
  exchange.respond({.status = status,
                    .headers = {},
                    .body = "<Error><Code>" + name + "</Code><Message>m</Message></Error>"});
}

// The part of `text` that the request's Range asks for, as S3 would answer it, the body cut after
// `most` bytes.
void answer_range(http::Exchange& exchange, const std::string& text, const std::string& etag,
                  std::size_t most = std::string::npos, const std::string& checksum = {}) {
  const std::string range(exchange.request().headers.get("Range"));
  unsigned long first = 0;
  unsigned long last = 0;
  ASSERT_EQ(std::sscanf(range.c_str(), "bytes=%lu-%lu", &first, &last), 2) << range;
  last = std::min<unsigned long>(last, text.size() - 1);
  http::Response head{.status = 206, .headers = {}, .body = {}};
  head.headers.set("ETag", "\"" + etag + "\"");
  head.headers.set("Content-Range", "bytes " + std::to_string(first) + "-" + std::to_string(last) +
                                        "/" + std::to_string(text.size()));
  if (!checksum.empty()) {
    head.headers.set("x-amz-checksum-crc32c", checksum);
  }
  const std::string part = text.substr(first, last - first + 1);
  ASSERT_TRUE(exchange.start(head, part.size()));
  const std::string sent = part.substr(0, most);
  static_cast<void>(exchange.write(std::as_bytes(std::span(sent))));
  if (sent.size() == part.size()) {
    static_cast<void>(exchange.finish());
  }
}

void answer_head(http::Exchange& exchange, std::size_t size, const std::string& etag,
                 const std::string& checksum = {}) {
  http::Response response;
  response.headers.set("ETag", "\"" + etag + "\"");
  response.headers.set("Content-Length", std::to_string(size));
  if (!checksum.empty()) {
    response.headers.set("x-amz-checksum-crc32c", checksum);
  }
  exchange.respond(response);
}

std::string crc_of(const std::string& text) {
  return to_base64(hash_of(HashKind::kCrc32c, text));
}

// Holds one object and answers on the thread that asks.
class NearStore final : public http::Client {
 public:
  Result<http::Response> send(const http::ClientRequest& request) override {
    http::Response response;
    response.headers.set("ETag", "\"0123456789abcdef0123456789abcdef\"");
    response.headers.set("Content-Length", std::to_string(text.size()));
    if (request.method == "POST") {
      last_patience = request.stall_timeout;
      response.body = request.url.ends_with("?uploads=")
                          ? "<InitiateMultipartUploadResult><UploadId>u1</UploadId>"
                            "</InitiateMultipartUploadResult>"
                          : "<CompleteMultipartUploadResult><ETag>\"e-3\"</ETag>"
                            "</CompleteMultipartUploadResult>";
    } else if (request.method == "PUT") {
      YARD_TRY(take_part(request));
    } else if (request.method == "GET") {
      YARD_TRY(give_range(request, response));
    }
    return response;
  }

  std::string text;
  std::chrono::milliseconds last_patience{0};  // of a POST

 private:
  Result<void> take_part(const http::ClientRequest& request) {
    std::string part(request.upload_length, '\0');
    for (std::size_t at = 0; at < part.size();) {
      YARD_TRY(const std::size_t got,
               request.upload(std::as_writable_bytes(std::span(part)).subspan(at)));
      at += got;
    }
    text += part;
    return {};
  }

  Result<void> give_range(const http::ClientRequest& request, http::Response& response) const {
    const std::string range(request.headers.get("Range"));
    unsigned long first = 0;
    unsigned long last = 0;
    EXPECT_EQ(std::sscanf(range.c_str(), "bytes=%lu-%lu", &first, &last), 2) << range;
    last = std::min<unsigned long>(last, text.size() - 1);
    response.status = 206;
    response.headers.set("Content-Range", "bytes " + std::to_string(first) + "-" +
                                              std::to_string(last) + "/" +
                                              std::to_string(text.size()));
    return request.download(std::as_bytes(std::span(text)).subspan(first, last - first + 1));
  }
};

bool is_skewed(const Asked& asked) {
  const auto date = parse_basic_iso8601(asked.request.headers.get("x-amz-date"));
  return !date || std::chrono::abs(*date - SystemClock().now()) > std::chrono::minutes(5);
}

class SkewedClock final : public Clock {
 public:
  WallTime now() const override { return real_.now() + skew; }
  SteadyTime steady_now() const override { return real_.steady_now(); }

  Duration skew{0};

 private:
  SystemClock real_;
};

struct S3ClientFaults : testing::Test {
  void serve(ScriptedServer::Script script) {
    server = std::make_unique<ScriptedServer>(std::move(script));
    options.endpoint = server->url();
    auto made = S3Client::make(options, *http, clock, random);
    ASSERT_TRUE(made) << made.error().message;
    client = std::move(*made);
  }

  SkewedClock clock;
  SystemRandom random;
  std::atomic<int> refreshed{0};
  S3ClientOptions options{
      .endpoint = {},
      .credentials =
          [this](bool refresh) {
            refreshed += refresh ? 1 : 0;
            return http::Credentials{"AK", "SK", refreshed > 0 ? "new-token" : "old-token"};
          },
      .max_attempts = 4,
      .first_delay = Duration(1),
      .part_size = std::size_t{64} << 10,
      .chunk_size = kChunk};
  std::unique_ptr<http::Client> http = http::Client::make();
  std::unique_ptr<ScriptedServer> server;
  std::unique_ptr<S3Client> client;
};

TEST_F(S3ClientFaults, TriesAgainAfter503And429AndABrokenConnection) {
  serve([](http::Exchange& exchange, const Asked&, int number) {
    if (number == 1) {
      answer_error(exchange, 503, "SlowDown");
    } else if (number == 2) {
      answer_error(exchange, 429, "TooManyRequests");
    } else if (number == 3) {
      static_cast<void>(exchange.start({}, 10));
    } else {
      exchange.respond({});
    }
  });
  EXPECT_TRUE(put_text(*client, "bucket", "k", "hello"));
  EXPECT_EQ(server->asked().size(), 4u);
  EXPECT_EQ(server->asked().back().body, "hello");
}

TEST_F(S3ClientFaults, GivesUpAfterItsAttempts) {
  serve([](http::Exchange& exchange, const Asked&, int) {
    answer_error(exchange, 500, "InternalError");
  });
  EXPECT_EQ(client->head_bucket("bucket").error().code, Code::kUnavailable);
  EXPECT_EQ(server->asked().size(), 4u);
}

TEST_F(S3ClientFaults, DoesNotTryAgainWhatCannotGetBetter) {
  serve([](http::Exchange& exchange, const Asked&, int) {
    answer_error(exchange, 403, "AccessDenied");
  });
  EXPECT_EQ(put_text(*client, "bucket", "k", "x").error().code, Code::kDenied);
  EXPECT_EQ(server->asked().size(), 1u);
}

TEST_F(S3ClientFaults, TakesTheServersTimeWhenItsOwnIsRefused) {
  clock.skew = std::chrono::minutes(20);
  serve([](http::Exchange& exchange, const Asked& asked, int) {
    if (is_skewed(asked)) {
      answer_error(exchange, 403, "RequestTimeTooSkewed");
    } else {
      exchange.respond({});
    }
  });
  EXPECT_TRUE(put_text(*client, "bucket", "k", "x"));
  EXPECT_EQ(server->asked().size(), 2u);
  EXPECT_TRUE(put_text(*client, "bucket", "k", "x"));
  EXPECT_EQ(server->asked().size(), 3u);
}

TEST_F(S3ClientFaults, TakesTheServersTimeFromTheAnswerToAHeadAsWell) {
  clock.skew = -std::chrono::minutes(20);
  serve([](http::Exchange& exchange, const Asked& asked, int) {
    exchange.respond({.status = is_skewed(asked) ? 403 : 200, .headers = {}, .body = {}});
  });
  EXPECT_TRUE(client->head_bucket("bucket"));
  EXPECT_EQ(server->asked().size(), 2u);
}

TEST_F(S3ClientFaults, RefreshesCredentialsThatHaveExpired) {
  serve([](http::Exchange& exchange, const Asked& asked, int) {
    if (asked.request.headers.get("x-amz-security-token") == "new-token") {
      exchange.respond({});
    } else {
      answer_error(exchange, 400, "ExpiredToken");
    }
  });
  EXPECT_TRUE(put_text(*client, "bucket", "k", "x"));
  EXPECT_EQ(refreshed, 1);
}

TEST_F(S3ClientFaults, GoesOnWhereADownloadWasCut) {
  const std::string text = long_text(3 * kChunk + 17);
  std::atomic<int> cuts{0};
  serve([&](http::Exchange& exchange, const Asked& asked, int) {
    if (asked.request.method == "HEAD") {
      answer_head(exchange, text.size(), "e", crc_of(text));
    } else if (asked.request.headers.get("Range").starts_with("bytes=100000-")) {
      ++cuts;
      answer_range(exchange, text, "e", kChunk * 6 / 10);
    } else {
      answer_range(exchange, text, "e");
    }
  });
  EXPECT_EQ(get_text(*client, "bucket", "k").value_or("?"), text);
  EXPECT_EQ(cuts, 1);
  const auto asked = server->asked();
  const auto resumed = std::ranges::find_if(asked, [](const Asked& one) {
    const std::string_view range = one.request.headers.get("Range");
    return range.ends_with("-199999") && range != "bytes=100000-199999";
  });
  ASSERT_NE(resumed, asked.end());
  EXPECT_EQ(resumed->request.headers.get("If-Match"), "\"e\"");
}

TEST_F(S3ClientFaults, BeginsAgainWhenTheFirstChunkWasCut) {
  const std::string text = long_text(50'000);
  serve([&](http::Exchange& exchange, const Asked&, int number) {
    answer_range(exchange, text, "e", number == 1 ? 30'000 : std::string::npos);
  });
  EXPECT_EQ(get_text(*client, "bucket", "k").value_or("?"), text);
}

TEST_F(S3ClientFaults, NeverMixesTwoVersionsOfAnObject) {
  const std::string text = long_text(2 * kChunk);
  serve([&](http::Exchange& exchange, const Asked& asked, int) {
    if (asked.request.method == "HEAD") {
      answer_head(exchange, text.size(), "new");
    } else if (asked.request.headers.find("If-Match") != nullptr) {
      answer_error(exchange, 412, "PreconditionFailed");
    } else {
      answer_range(exchange, text, "old");
    }
  });
  const auto got = get_text(*client, "bucket", "k");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().subject, "precondition");
  EXPECT_THAT(got.error().message, HasSubstr("'k'"));
}

TEST_F(S3ClientFaults, FetchesAgainWhatDoesNotHaveItsChecksum) {
  const std::string text = long_text(1'000);
  serve([&](http::Exchange& exchange, const Asked&, int number) {
    answer_range(exchange, number == 1 ? long_text(1'000, 2) : text, "e", std::string::npos,
                 crc_of(text));
  });
  EXPECT_EQ(get_text(*client, "bucket", "k").value_or("?"), text);
  EXPECT_EQ(server->asked().size(), 2u);
}

TEST_F(S3ClientFaults, RefusesALongObjectThatDoesNotHaveItsChecksum) {
  const std::string text = long_text(2 * kChunk);
  serve([&](http::Exchange& exchange, const Asked& asked, int) {
    if (asked.request.method == "HEAD") {
      answer_head(exchange, text.size(), "e", crc_of("other"));
    } else {
      answer_range(exchange, text, "e");
    }
  });
  const auto got = get_text(*client, "bucket", "k");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kCorrupt);
  EXPECT_THAT(got.error().message, HasSubstr("CRC32C"));
}

TEST_F(S3ClientFaults, RefusesABodyShorterThanTheObject) {
  serve([](http::Exchange& exchange, const Asked&, int) {
    http::Response response{.status = 206, .headers = {}, .body = "short"};
    response.headers.set("ETag", "\"e\"");
    response.headers.set("Content-Range", "bytes 0-99/100");
    exchange.respond(response);
  });
  const auto got = get_text(*client, "bucket", "k");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kCorrupt);
}

TEST_F(S3ClientFaults, AbortsAnUploadWhoseSourceFails) {
  serve([](http::Exchange& exchange, const Asked& asked, int) {
    http::Response response;
    response.headers.set("ETag", "\"e\"");
    if (asked.request.method == "POST") {
      response.body =
          "<InitiateMultipartUploadResult><UploadId>u1</UploadId>"
          "</InitiateMultipartUploadResult>";
    }
    exchange.respond(response);
  });
  std::size_t given = 0;
  const auto made =
      client->put("bucket", "k",
                  [&](std::span<std::byte> out) -> Result<std::size_t> {
                    given += out.size();
                    return given > 200'000 ? Result<std::size_t>(Error{Code::kUnavailable, "gone"})
                                           : Result<std::size_t>(out.size());
                  },
                  {});
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("gone"));
  const Asked last = server->asked().back();
  EXPECT_EQ(last.request.method, "DELETE");
  EXPECT_THAT(last.request.query, HasSubstr("uploadId=u1"));
}

TEST_F(S3ClientFaults, SendsOnePartAgainNotTheWholeUpload) {
  std::atomic<int> refused{0};
  serve([&](http::Exchange& exchange, const Asked& asked, int) {
    http::Response response;
    response.headers.set("ETag", "\"0123456789abcdef0123456789abcdef\"");
    if (asked.request.query == "uploads=") {
      response.body =
          "<InitiateMultipartUploadResult><UploadId>u1</UploadId>"
          "</InitiateMultipartUploadResult>";
    } else if (asked.request.query.find("partNumber=2") != std::string::npos && refused++ == 0) {
      answer_error(exchange, 503, "SlowDown");
      return;
    } else if (asked.request.method == "POST") {
      response.body =
          "<CompleteMultipartUploadResult><ETag>\"e-3\"</ETag>"
          "</CompleteMultipartUploadResult>";
    }
    exchange.respond(response);
  });
  const std::string text = long_text(150'000);
  ASSERT_TRUE(put_text(*client, "bucket", "k", text));
  const auto asked = server->asked();
  // Creation, three parts with one twice, completion, the look at the result.
  EXPECT_EQ(asked.size(), 7u);
  const Asked& completion = asked[5];
  EXPECT_THAT(completion.body, HasSubstr("<PartNumber>3</PartNumber>"));
}

TEST_F(S3ClientFaults, SendsAndReadsInOneThreadWhereTheMachineHasNoOther) {
  NearStore near;
  options.endpoint = "http://store";
  const auto one = S3Client::make(options, near, clock, random).value();
  const std::string text = long_text(150'000);  // three parts, two chunks
  const NoThreads exhausted;
  const auto put = put_text(*one, "bucket", "k", text);
  ASSERT_TRUE(put) << put.error().message;
  EXPECT_EQ(near.text, text);
  EXPECT_EQ(get_text(*one, "bucket", "k").value_or("?"), text);
}

// A store may put a hundred GB together before it says a word.
TEST_F(S3ClientFaults, WaitsLongerWhereTheStoreCopiesAWholeObject) {
  NearStore near;
  options.endpoint = "http://store";
  const auto one = S3Client::make(options, near, clock, random).value();
  ASSERT_TRUE(put_text(*one, "bucket", "k", long_text(150'000)));
  EXPECT_EQ(near.last_patience, std::chrono::minutes(10));
}

TEST_F(S3ClientFaults, StopEndsTheWaitBetweenAttempts) {
  std::stop_source stop;
  options.stop = stop.get_token();
  options.first_delay = std::chrono::minutes(1);
  options.max_delay = std::chrono::minutes(1);
  serve([&](http::Exchange& exchange, const Asked&, int) {
    answer_error(exchange, 503, "SlowDown");
    stop.request_stop();
  });
  EXPECT_EQ(client->remove("bucket", "k").error().code, Code::kCancelled);
}

TEST_F(S3ClientFaults, AnEmptyObjectIsReadThoughNoRangeOfItExists) {
  serve([](http::Exchange& exchange, const Asked& asked, int) {
    if (asked.request.method == "HEAD") {
      answer_head(exchange, 0, "e");
    } else {
      answer_error(exchange, 416, "InvalidRange");
    }
  });
  EXPECT_EQ(get_text(*client, "bucket", "k").value_or("?"), "");
}

}  // namespace
}  // namespace trainyard::s3
