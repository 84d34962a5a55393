// SPDX-License-Identifier: Apache-2.0
#include "http/aws_chunked.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hash.h"
#include "http/internal/sigv4_canonical.h"

namespace trainyard::http {
namespace {

using testing::HasSubstr;

// The setting of "Signature Calculations for the Authorization Header: Transferring Payload in
// Multiple Chunks", S3 API reference.
Verified verified_with(std::string_view word, const std::string& seed = {}) {
  const SigningScope scope{.region = "us-east-1", .service = "s3"};
  return {.access_key_id = "AKIAIOSFODNN7EXAMPLE",
          .scope = scope,
          .payload_hash = std::string(word),
          .seed_signature = seed,
          .signing_key =
              signing_key("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "20130524T000000Z", scope),
          .date = "20130524T000000Z"};
}

std::string chunk(const std::string& data, const std::string& signature) {
  char size[20];
  std::snprintf(size, sizeof size, "%zx", data.size());
  return std::string(size) + ";chunk-signature=" + signature + "\r\n" + data +
         (data.empty() ? "" : "\r\n");
}

const std::string kSeed = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9";
const std::string kPublishedWire =
    chunk(std::string(65'536, 'a'),
          "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648") +
    chunk(std::string(1'024, 'a'),
          "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497") +
    chunk("", "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9") + "\r\n";

struct Decoded {
  std::string body;
  std::size_t consumed = 0;
  bool is_done = false;
  Headers trailer;
};

// Decodes with at most `step` bytes of input and `room` bytes of output a call.
Result<Decoded> decode(const Verified& verified, const std::string& wire, std::size_t step,
                       std::size_t room = 4'096) {
  AwsChunkedDecoder decoder(verified);
  Decoded decoded;
  std::vector<std::byte> out(room);
  while (decoded.consumed < wire.size() && !decoder.is_done()) {
    const auto rest = std::as_bytes(std::span(wire)).subspan(decoded.consumed);
    YARD_TRY(const auto taken, decoder.decode(rest.first(std::min(step, rest.size())), out));
    decoded.consumed += taken.consumed;
    decoded.body.append(reinterpret_cast<const char*>(out.data()), taken.produced);
  }
  decoded.is_done = decoder.is_done();
  decoded.trailer = decoder.trailer();
  return decoded;
}

Error error_of(std::string_view word, const std::string& wire) {
  auto decoded = decode(verified_with(word, kSeed), wire, wire.size());
  return decoded ? Error{Code::kInternal, "accepted"} : std::move(decoded).error();
}

class AwsChunkedAtEveryPace : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Bytes, AwsChunkedAtEveryPace, testing::Values(1, 3, 100, 1'000'000));

TEST_P(AwsChunkedAtEveryPace, DecodesThePublishedExample) {
  const auto decoded = decode(verified_with(kStreamingSigned, kSeed), kPublishedWire, GetParam());
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_TRUE(decoded->is_done);
  EXPECT_EQ(decoded->consumed, kPublishedWire.size());
  EXPECT_EQ(decoded->body, std::string(66'560, 'a'));
}

TEST_P(AwsChunkedAtEveryPace, DecodesAnUnsignedBodyWithATrailer) {
  const std::string wire =
      "5\r\nhello\r\n6\r\n world\r\n0\r\nx-amz-checksum-crc32:DUoRhQ==\r\n\r\n";
  const auto decoded =
      decode(verified_with(kStreamingUnsignedTrailer), wire + "extra", GetParam(), 3);
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_TRUE(decoded->is_done);
  EXPECT_EQ(decoded->consumed, wire.size());
  EXPECT_EQ(decoded->body, "hello world");
  EXPECT_EQ(decoded->trailer.get("X-Amz-Checksum-Crc32"), "DUoRhQ==");
}

// The same setting with a signed trailer; the signatures were computed by the published rule.
std::string signed_trailer_wire(const std::string& body, const std::string& trailer) {
  const Verified verified = verified_with(kStreamingSignedTrailer, kSeed);
  const std::string scope = "20130524/us-east-1/s3/aws4_request";
  const auto next = [&](const std::string& previous, const std::string& data) {
    return signature_of(verified.signing_key,
                        "AWS4-HMAC-SHA256-PAYLOAD\n20130524T000000Z\n" + scope + "\n" + previous +
                            "\n" + std::string(kEmptyHash) + "\n" + sha256_hex(data));
  };
  const std::string first = next(kSeed, body);
  const std::string last = next(first, "");
  const std::string of_trailer =
      signature_of(verified.signing_key, "AWS4-HMAC-SHA256-TRAILER\n20130524T000000Z\n" + scope +
                                             "\n" + last + "\n" + sha256_hex(trailer + "\n"));
  return chunk(body, first) + chunk("", last) + trailer +
         "\r\nx-amz-trailer-signature:" + of_trailer + "\r\n\r\n";
}

TEST_P(AwsChunkedAtEveryPace, DecodesASignedTrailer) {
  const auto decoded =
      decode(verified_with(kStreamingSignedTrailer, kSeed),
             signed_trailer_wire("hello", "x-amz-checksum-crc32c:sOO8/Q=="), GetParam());
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_TRUE(decoded->is_done);
  EXPECT_EQ(decoded->body, "hello");
  EXPECT_EQ(decoded->trailer.fields().size(), 1u);
}

TEST(AwsChunked, AFlippedChunkSignatureIsDenied) {
  std::string wire = kPublishedWire;
  wire[wire.find("ad80")] = 'b';
  const Error error = error_of(kStreamingSigned, wire);
  EXPECT_EQ(error.code, Code::kDenied);
  EXPECT_EQ(error.subject, "signature");
}

TEST(AwsChunked, FlippedDataIsDenied) {
  std::string wire = kPublishedWire;
  wire[wire.size() / 2] ^= 1;
  EXPECT_EQ(error_of(kStreamingSigned, wire).subject, "signature");
}

TEST(AwsChunked, AMissingOrReorderedChunkIsDenied) {
  EXPECT_EQ(error_of(kStreamingSigned, kPublishedWire.substr(kPublishedWire.find("400;"))).code,
            Code::kDenied);
  EXPECT_EQ(error_of(kStreamingSigned, "5\r\nhello\r\n0\r\n\r\n").code, Code::kDenied);
}

TEST(AwsChunked, AnAlteredOrUnsignedTrailerIsDenied) {
  std::string wire = signed_trailer_wire("hello", "x-amz-checksum-crc32c:sOO8/Q==");
  wire[wire.find("sOO8")] = 'S';
  EXPECT_EQ(error_of(kStreamingSignedTrailer, wire).subject, "signature");
  const std::string whole = signed_trailer_wire("hello", "x-amz-checksum-crc32c:sOO8/Q==");
  const std::string bare = whole.substr(0, whole.find("x-amz-trailer")) + "\r\n";
  EXPECT_EQ(error_of(kStreamingSignedTrailer, bare).subject, "signature");
}

TEST(AwsChunked, ABodyThatBreaksOffIsNotDone) {
  const auto decoded =
      decode(verified_with(kStreamingUnsignedTrailer), "5\r\nhello\r\n0\r\n", 1'000);
  ASSERT_TRUE(decoded);
  EXPECT_FALSE(decoded->is_done);
}

struct BadFrame {
  const char* wire;
  const char* why;
};

class BadFrames : public testing::TestWithParam<BadFrame> {};

TEST_P(BadFrames, AreCorrupt) {
  const Error error = error_of(kStreamingUnsignedTrailer, GetParam().wire);
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr(GetParam().why));
}

INSTANTIATE_TEST_SUITE_P(
    Frames, BadFrames,
    testing::Values(BadFrame{"x\r\n", "size in hexadecimal"}, BadFrame{"\r\n", "hexadecimal"},
                    BadFrame{"-5\r\n", "hexadecimal"}, BadFrame{"0x5\r\n", "hexadecimal"},
                    BadFrame{"5 \r\n", "hexadecimal"}, BadFrame{"5\nhello", "CR LF"},
                    BadFrame{"5\r\rhello", "CR LF"}, BadFrame{"5\r\nhelloworld\r\n", "longer"},
                    BadFrame{"140000001\r\n", "5 GiB"}, BadFrame{"fffffffffffffffff\r\n", "hexa"},
                    BadFrame{"0\r\nnocolon\r\n", "no name"}, BadFrame{"0\r\n:v\r\n", "no name"}));

TEST(AwsChunked, LimitsItsLines) {
  EXPECT_THAT(error_of(kStreamingUnsignedTrailer, "5;" + std::string(300, 'x')).message,
              HasSubstr("256 bytes"));
  EXPECT_THAT(error_of(kStreamingUnsignedTrailer, "0\r\na:" + std::string(20'000, 'x')).message,
              HasSubstr("16 KiB"));
}

TEST(AwsChunked, ATrailerMustHaveBeenAnnounced) {
  const std::string wire = kPublishedWire.substr(0, kPublishedWire.size() - 2) + "a:b\r\n\r\n";
  EXPECT_THAT(error_of(kStreamingSigned, wire).message, HasSubstr("not announced"));
}

}  // namespace
}  // namespace trainyard::http
