// SPDX-License-Identifier: Apache-2.0
#include "http/aws_chunked.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/encoding.h"
#include "base/hash.h"
#include "base/text.h"
#include "http/internal/sigv4_canonical.h"

namespace trainyard::http {
namespace {

// Some SDKs send a whole part as one chunk; S3's largest single upload is 5 GiB.
constexpr std::uint64_t kMaxChunk = std::uint64_t{5} << 30;
constexpr std::size_t kMaxSizeLine = 256;
constexpr std::size_t kMaxTrailer = std::size_t{16} << 10;
constexpr std::string_view kTrailerSignature = "x-amz-trailer-signature";

Error corrupt(std::string message) {
  return {Code::kCorrupt, "aws-chunked body: " + std::move(message)};
}

Error bad_signature(std::string_view what) {
  return {Code::kDenied, "The " + std::string(what) + " signature does not match.", "signature"};
}

}  // namespace

struct AwsChunkedDecoder::State {
  enum class Where { kSizeLine, kData, kDataEnd, kTrailer, kDone };

  Result<void> end_line();
  Result<void> begin_chunk();
  Result<void> end_chunk();
  Result<void> add_trailer();
  Result<void> end_trailer();
  Result<void> take_line_byte(char c);
  std::string sign_next(std::string_view kind, std::string_view middle, std::string_view hash);

  bool chunks_are_signed = false;
  bool has_trailer = false;
  std::string signing_key;
  std::string time;
  std::string scope;
  std::string previous_signature;

  Where where = Where::kSizeLine;
  std::string line;        // the frame line that is being read, without its end
  std::uint64_t left = 0;  // of the chunk's data
  bool is_last_chunk = false;
  std::string chunk_signature;
  Hasher chunk_hash{HashKind::kSha256};
  std::string trailer_text;  // "name:value\n" ..., as it is signed
  std::string trailer_signature;
  std::size_t trailer_size = 0;
  Headers trailer;
};

// AWS4-HMAC-SHA256-PAYLOAD and -TRAILER strings: time, scope, previous signature, then `middle`
// (the hash of nothing and a line end, for chunks) and the hash of what is covered.
std::string AwsChunkedDecoder::State::sign_next(std::string_view kind, std::string_view middle,
                                                std::string_view hash) {
  std::string text = std::string(kAlgorithm) + "-" + std::string(kind) + "\n" + time + "\n" +
                     scope + "\n" + previous_signature + "\n";
  text.append(middle).append(hash);
  return signature_of(signing_key, text);
}

Result<void> AwsChunkedDecoder::State::begin_chunk() {
  const std::string_view text = line;
  const std::size_t semicolon = std::min(text.find(';'), text.size());
  const std::string_view digits = text.substr(0, semicolon);
  std::uint64_t size = 0;
  const auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), size, 16);
  if (digits.empty() || ec != std::errc() || end != digits.data() + digits.size()) {
    return corrupt("a chunk does not begin with its size in hexadecimal");
  }
  if (size > kMaxChunk) {
    return corrupt("a chunk is longer than 5 GiB");
  }
  constexpr std::string_view kExtension = ";chunk-signature=";
  chunk_signature.clear();
  if (text.substr(semicolon).starts_with(kExtension)) {
    chunk_signature = trim(text.substr(semicolon + kExtension.size()));
  }
  left = size;
  is_last_chunk = size == 0;
  chunk_hash = Hasher(HashKind::kSha256);
  line.clear();
  if (is_last_chunk) {
    YARD_TRY(end_chunk());
    where = Where::kTrailer;
  } else {
    where = Where::kData;
  }
  return {};
}

Result<void> AwsChunkedDecoder::State::end_chunk() {
  if (!chunks_are_signed) {
    return {};
  }
  const std::string right =
      sign_next("PAYLOAD", std::string(kEmptyHash) + "\n", to_hex(chunk_hash.finish()));
  if (!equal_in_constant_time(right, chunk_signature)) {
    return bad_signature("chunk");
  }
  previous_signature = right;
  return {};
}

Result<void> AwsChunkedDecoder::State::add_trailer() {
  const std::size_t colon = line.find(':');
  if (!has_trailer || colon == std::string::npos || colon == 0) {
    return corrupt(has_trailer ? "a trailing header has no name"
                               : "a trailing header was not announced");
  }
  const std::string name = lower(trim(std::string_view(line).substr(0, colon)));
  const std::string_view value = trim(std::string_view(line).substr(colon + 1));
  if (name == kTrailerSignature) {
    trailer_signature = value;
  } else {
    trailer_text += name + ":" + std::string(value) + "\n";
    trailer.add(name, std::string(value));
  }
  line.clear();
  return {};
}

Result<void> AwsChunkedDecoder::State::end_trailer() {
  if (chunks_are_signed && has_trailer) {
    const std::string right = sign_next("TRAILER", "", sha256_hex(trailer_text));
    if (!equal_in_constant_time(right, trailer_signature)) {
      return bad_signature("trailer");
    }
  }
  where = Where::kDone;
  return {};
}

Result<void> AwsChunkedDecoder::State::end_line() {
  switch (where) {
    case Where::kSizeLine:
      return begin_chunk();
    case Where::kDataEnd:
      if (!line.empty()) {
        return corrupt("a chunk is longer than its size says");
      }
      YARD_TRY(end_chunk());
      where = Where::kSizeLine;
      return {};
    default:
      return line.empty() ? end_trailer() : add_trailer();
  }
}

// Lines end in CR LF; a CR inside one is refused, so that no two parsers cut it differently.
Result<void> AwsChunkedDecoder::State::take_line_byte(char c) {
  const bool after_cr = !line.empty() && line.back() == '\r';
  if (after_cr && c == '\n') {
    line.pop_back();
    return end_line();
  }
  if (after_cr || c == '\n') {
    return corrupt("a line does not end in CR LF");
  }
  if (where == Where::kTrailer && ++trailer_size > kMaxTrailer) {
    return corrupt("the trailing headers are longer than 16 KiB");
  }
  if (where != Where::kTrailer && line.size() >= kMaxSizeLine) {
    return corrupt("the line before a chunk is longer than 256 bytes");
  }
  line += c;
  return {};
}

AwsChunkedDecoder::AwsChunkedDecoder(const Verified& verified) : state_(std::make_unique<State>()) {
  const std::string& word = verified.payload_hash;
  state_->chunks_are_signed = word == kStreamingSigned || word == kStreamingSignedTrailer;
  state_->has_trailer = word == kStreamingSignedTrailer || word == kStreamingUnsignedTrailer;
  state_->signing_key = verified.signing_key;
  state_->time = verified.date;
  state_->scope = scope_text(verified.date, verified.scope);
  state_->previous_signature = verified.seed_signature;
}

AwsChunkedDecoder::AwsChunkedDecoder(AwsChunkedDecoder&&) noexcept = default;
AwsChunkedDecoder::~AwsChunkedDecoder() = default;

Result<AwsChunkedDecoder::Step> AwsChunkedDecoder::decode(std::span<const std::byte> wire,
                                                          std::span<std::byte> out) {
  State& s = *state_;
  Step step;
  while (step.consumed < wire.size() && s.where != State::Where::kDone) {
    if (s.where != State::Where::kData) {
      YARD_TRY(s.take_line_byte(static_cast<char>(wire[step.consumed])));
      ++step.consumed;
      continue;
    }
    const std::size_t room = std::min(wire.size() - step.consumed, out.size() - step.produced);
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(room, s.left));
    if (count == 0) {
      break;  // `out` is full
    }
    const std::span<const std::byte> data = wire.subspan(step.consumed, count);
    std::copy(data.begin(), data.end(), out.begin() + static_cast<std::ptrdiff_t>(step.produced));
    if (s.chunks_are_signed) {
      s.chunk_hash.update(data);
    }
    step.consumed += count;
    step.produced += count;
    s.left -= count;
    if (s.left == 0) {
      s.where = State::Where::kDataEnd;
    }
  }
  return step;
}

bool AwsChunkedDecoder::is_done() const {
  return state_->where == State::Where::kDone;
}

const Headers& AwsChunkedDecoder::trailer() const {
  return state_->trailer;
}

}  // namespace trainyard::http
