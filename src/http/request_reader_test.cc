// SPDX-License-Identifier: Apache-2.0
#include "http/internal/request_reader.h"

#include <gtest/gtest.h>

namespace trainyard::http {
namespace {

// Gives the reader one byte more each time, as a slow client would, or all at once.
Result<std::size_t> feed(RequestReader& reader, std::string_view wire, std::size_t step) {
  std::size_t begin = 0;
  std::size_t end = 0;
  while (!reader.is_head_done() && end < wire.size()) {
    end = std::min(end + step, wire.size());
    YARD_TRY(const std::size_t consumed, reader.read_head(wire.substr(begin, end - begin)));
    begin += consumed;
  }
  return begin;
}

int refusal_of(std::string_view wire) {
  RequestReader reader;
  const auto consumed = feed(reader, wire, wire.size());
  return consumed ? 0 : status_of(consumed.error());
}

class RequestAtEveryPace : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Bytes, RequestAtEveryPace, testing::Values(1, 7, 4096));

TEST_P(RequestAtEveryPace, ReadsAHead) {
  RequestReader reader;
  const std::string_view wire =
      "\r\nPUT /a%20b//c?x=1&y HTTP/1.1\r\nHost: h:1\r\nX-A: 1\r\nx-a:  2 \r\nContent-Length: 5\r\n"
      "Expect: 100-Continue\r\n\r\n";
  const auto consumed = feed(reader, wire, GetParam());
  ASSERT_TRUE(consumed);
  EXPECT_EQ(*consumed, wire.size());
  ASSERT_TRUE(reader.is_head_done());
  const Request request = reader.take_request();
  EXPECT_EQ(request.method, "PUT");
  EXPECT_EQ(request.path, "/a%20b//c");
  EXPECT_EQ(request.query, "x=1&y");
  EXPECT_EQ(request.headers.fields().size(), 5u);
  EXPECT_EQ(request.headers.fields()[2].second, "2");
  EXPECT_EQ(reader.framing().content_length, 5u);
  EXPECT_TRUE(reader.framing().expects_continue);
  EXPECT_TRUE(reader.framing().keeps_alive);
}

TEST_P(RequestAtEveryPace, ReadsAChunkedBody) {
  RequestReader reader;
  const std::string_view head = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  ASSERT_TRUE(feed(reader, head, head.size()));
  EXPECT_FALSE(reader.framing().content_length);
  const std::string_view wire = "5;x=y\r\nhello\r\n6\r\n world\r\n0\r\nT: v\r\n\r\nGET /";
  std::string body;
  std::string pending;
  std::size_t given = 0;
  std::array<std::byte, 3> out{};
  for (int turn = 0; turn < 1'000 && !reader.is_chunked_done(); ++turn) {
    const auto step = reader.read_chunked(pending, out);
    ASSERT_TRUE(step) << step.error().message;
    pending.erase(0, step->consumed);
    body.append(reinterpret_cast<const char*>(out.data()), step->produced);
    if (step->produced == 0 && !reader.is_chunked_done()) {
      pending += wire.substr(given, GetParam());
      given = std::min(given + GetParam(), wire.size());
    }
  }
  EXPECT_EQ(body, "hello world");
  EXPECT_TRUE(reader.is_chunked_done());
  EXPECT_TRUE(pending.empty() || pending.starts_with("G"));
}

TEST(RequestReader, TakesThePathOfAnAbsoluteTarget) {
  RequestReader reader;
  const std::string_view wire = "GET http://h:1/a?b HTTP/1.1\r\nHost: h:1\r\n\r\n";
  ASSERT_TRUE(feed(reader, wire, wire.size()));
  EXPECT_EQ(reader.take_request().path, "/a");
}

TEST(RequestReader, HttpOneZeroClosesUnlessAsked) {
  RequestReader closing;
  ASSERT_TRUE(feed(closing, "GET / HTTP/1.0\r\n\r\n", 99));
  EXPECT_FALSE(closing.framing().keeps_alive);
  RequestReader keeping;
  ASSERT_TRUE(feed(keeping, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 99));
  EXPECT_TRUE(keeping.framing().keeps_alive);
}

struct BadHead {
  const char* name;
  std::string wire;
  int status;
};

class BadHeads : public testing::TestWithParam<BadHead> {};

TEST_P(BadHeads, AreRefused) {
  EXPECT_EQ(refusal_of(GetParam().wire), GetParam().status);
}

std::string head_with(const std::string& lines) {
  return "POST / HTTP/1.1\r\nHost: h\r\n" + lines + "\r\n";
}

INSTANTIATE_TEST_SUITE_P(
    Smuggling, BadHeads,
    testing::Values(
        BadHead{"LengthThenCoding",
                head_with("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 400},
        BadHead{"CodingThenLength",
                head_with("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), 400},
        BadHead{"TwoLengths", head_with("Content-Length: 5\r\nContent-Length: 6\r\n"), 400},
        BadHead{"LengthList", head_with("Content-Length: 5, 6\r\n"), 400},
        BadHead{"SignedLength", head_with("Content-Length: +5\r\n"), 400},
        BadHead{"NegativeLength", head_with("Content-Length: -1\r\n"), 400},
        BadHead{"HexLength", head_with("Content-Length: 0x5\r\n"), 400},
        BadHead{"HugeLength", head_with("Content-Length: 99999999999999999999\r\n"), 400},
        BadHead{"EmptyLength", head_with("Content-Length: \r\n"), 400},
        BadHead{"BlankBeforeColon", head_with("Content-Length : 5\r\n"), 400},
        BadHead{"LeadingBlankField", "GET / HTTP/1.1\r\n Host: h\r\n\r\n", 400},
        BadHead{"FoldedCoding", head_with("Transfer-Encoding:\r\n chunked\r\n"), 400},
        BadHead{"FoldedLength", head_with("X: y\r\n\tContent-Length: 5\r\n"), 400},
        BadHead{"QuotedCoding", head_with("Transfer-Encoding: \"chunked\"\r\n"), 501},
        BadHead{"NameWithoutColon", head_with("Content-Length\r\n"), 400},
        BadHead{"TabBeforeColon", head_with("Transfer-Encoding\t: chunked\r\n"), 400},
        BadHead{"TwoCodings",
                head_with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400},
        BadHead{"CodingNotLast", head_with("Transfer-Encoding: chunked, identity\r\n"), 501},
        BadHead{"OtherCoding", head_with("Transfer-Encoding: gzip\r\n"), 501},
        BadHead{"OtherCodingWithLength",
                head_with("Transfer-Encoding: xchunked\r\nContent-Length: 5\r\n"), 501},
        BadHead{"CodingBeforeChunked", head_with("Transfer-Encoding: gzip, chunked\r\n"), 501},
        BadHead{"CodingInHttp10", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
        BadHead{"TwoHosts", head_with("Host: other\r\n"), 400},
        BadHead{"NoHost", "GET / HTTP/1.1\r\n\r\n", 400},
        BadHead{"BareLineFeeds", "GET / HTTP/1.1\nHost: h\n\nGET /x HTTP/1.1\r\n\r\n", 400},
        BadHead{"NulInValue", head_with(std::string("X: a\0b\r\n", 8)), 400},
        BadHead{"CarriageReturnInValue", head_with("X: a\rb\r\n"), 400},
        BadHead{"FutureVersion", "GET / HTTP/2.0\r\nHost: h\r\n\r\n", 400},
        BadHead{"NoPath", "GET foo HTTP/1.1\r\nHost: h\r\n\r\n", 400},
        BadHead{"TlsHello", std::string("\x16\x03\x01\x02\x00\x01\x00\x01", 8) + "\r\n\r\n", 400},
        BadHead{"LongHead", head_with("X: " + std::string(70'000, 'a') + "\r\n"), 431},
        BadHead{"LongTarget", "GET /" + std::string(70'000, 'a') + " HTTP/1.1\r\nHost: h\r\n\r\n",
                431},
        BadHead{"EndlessHead", head_with("X: " + std::string(66'000, 'a')), 431}),
    [](const auto& each) { return std::string(each.param.name); });

TEST(RequestReader, EqualLengthsTwiceAreOneLength) {
  RequestReader reader;
  ASSERT_TRUE(feed(reader, head_with("Content-Length: 5\r\nContent-Length: 5\r\n"), 999));
  EXPECT_EQ(reader.framing().content_length, 5u);
}

class BadChunks : public testing::TestWithParam<const char*> {};

TEST_P(BadChunks, AreCorrupt) {
  RequestReader reader;
  ASSERT_TRUE(feed(reader, head_with("Transfer-Encoding: chunked\r\n"), 999));
  std::array<std::byte, 64> out{};
  std::string pending = GetParam();
  Result<RequestReader::Step> step = RequestReader::Step{};
  do {
    step = reader.read_chunked(pending, out);
    pending.erase(0, step ? step->consumed : 0);
  } while (step && step->produced > 0);
  EXPECT_FALSE(step);
  // What draws the rest of the body after the answer asks once more: nothing of it is a request.
  EXPECT_FALSE(reader.read_chunked(pending + "0\r\n\r\n", out));
}

INSTANTIATE_TEST_SUITE_P(Frames, BadChunks,
                         testing::Values("x\r\nhello\r\n", "-1\r\n\r\n", "5\r\nhelloXX0\r\n\r\n",
                                         "fffffffffffffffff\r\n", " 5\r\nhello\r\n",
                                         "0x5\r\nhello\r\n0\r\n\r\n",
                                         "5\r\nhello\r\n0\r\nTrailPOST / x\r\n\r\n"));

}  // namespace
}  // namespace trainyard::http
