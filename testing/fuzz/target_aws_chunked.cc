// SPDX-License-Identifier: Apache-2.0
// aws-chunked bodies. The first byte chooses one of the four kinds, the second the pace: a body
// gives the same payload, trailer and verdict at every pace.
#include <algorithm>
#include <string>
#include <vector>

#include "http/aws_chunked.h"
#include "http/internal/sigv4_canonical.h"
#include "testing/fuzz/fuzz.h"

namespace {

namespace http = trainyard::http;

constexpr std::string_view kKinds[] = {http::kStreamingSigned, http::kStreamingSignedTrailer,
                                       http::kStreamingUnsignedTrailer, http::kUnsignedPayload};

// What make_corpus.py signs its bodies with: the example of the S3 reference.
http::Verified verified(std::string_view kind) {
  static const http::SigningScope kScope{.region = "us-east-1", .service = "s3"};
  static const std::string kDate = "20130524T000000Z";
  static const std::string kKey =
      http::signing_key("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", kDate, kScope);
  return {.access_key_id = "AKIAIOSFODNN7EXAMPLE",
          .scope = kScope,
          .payload_hash = std::string(kind),
          .seed_signature = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
          .signing_key = kKey,
          .date = kDate};
}

struct Outcome {
  std::string payload;
  std::string trailer;
  bool is_done = false;
  int code = -1;
  bool operator==(const Outcome&) const = default;
};

Outcome decode(std::string_view kind, std::string_view wire, std::size_t step, std::size_t room) {
  http::AwsChunkedDecoder decoder(verified(kind));
  Outcome outcome;
  std::vector<std::byte> out(room);
  std::size_t at = 0;
  while (at < wire.size() && !decoder.is_done()) {
    const auto piece = trainyard::fuzz::as_bytes(wire.substr(at, step));
    const auto took = decoder.decode(piece, out);
    if (!took) {
      outcome.code = static_cast<int>(took.error().code);
      break;
    }
    YARD_CHECK(took->consumed <= piece.size() && took->produced <= out.size(), "beyond its spans");
    YARD_CHECK(took->consumed + took->produced > 0, "no progress");
    outcome.payload.append(reinterpret_cast<const char*>(out.data()), took->produced);
    at += took->consumed;
  }
  outcome.is_done = decoder.is_done();
  if (outcome.is_done) {
    for (const auto& [name, value] : decoder.trailer().fields()) {
      outcome.trailer += name + ":" + value + "\n";
    }
  }
  return outcome;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view wire = trainyard::fuzz::as_text(data, size);
  const std::string_view kind = kKinds[trainyard::fuzz::take_byte(wire) % 4];
  const std::size_t pace = trainyard::fuzz::take_byte(wire) % 61 + 1;
  const Outcome whole = decode(kind, wire, wire.size() + 1, wire.size() + 1);
  const Outcome pieces = decode(kind, wire, pace, pace);
  YARD_CHECK(whole.is_done == pieces.is_done && whole.code == pieces.code, "another verdict");
  // Of a refused body as much comes out as was decoded before: that may differ.
  YARD_CHECK(whole.code != -1 || whole == pieces, "another payload at another pace");
  return 0;
}
