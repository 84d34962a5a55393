// SPDX-License-Identifier: Apache-2.0
#include "bench/load/answer.h"

#include <algorithm>
#include <span>

#include "base/hash.h"
#include "base/text.h"

namespace trainyard::load {
namespace {

constexpr std::size_t kMaxHead = std::size_t{64} << 10;
constexpr std::uint64_t kMaxText = std::uint64_t{64} << 20;

Error corrupt(std::string message) {
  return {Code::kCorrupt, std::move(message)};
}

}  // namespace

Result<void> AnswerReader::feed(std::string_view bytes) {
  if (in_body_) {
    return take_body(bytes);
  }
  const std::size_t before = head_.size();
  head_ += bytes.substr(0, kMaxHead);
  const std::size_t end = head_.find("\r\n\r\n", before < 3 ? 0 : before - 3);
  if (end == std::string::npos) {
    return head_.size() < kMaxHead ? Result<void>() : corrupt("an answer's head is endless");
  }
  const std::size_t taken = end + 4 - before;
  head_.resize(end + 2);
  YARD_TRY(parse_head(head_));
  in_body_ = true;
  return take_body(bytes.substr(taken));
}

Result<void> AnswerReader::parse_head(std::string_view head) {
  const std::size_t line_end = head.find("\r\n");
  const std::string_view line = head.substr(0, line_end);
  const Result<std::int64_t> status =
      line.size() >= 12 ? parse_int(line.substr(9, 3)) : Error{Code::kCorrupt, ""};
  if (!line.starts_with("HTTP/1.1 ") || !status || *status < 200 || *status > 599) {
    return corrupt("not an answer: " + std::string(line.substr(0, 100)));
  }
  answer_.status = static_cast<int>(*status);
  head.remove_prefix(line_end + 2);
  while (!head.empty()) {
    const std::size_t end = head.find("\r\n");
    YARD_TRY(parse_field(head.substr(0, end)));
    head.remove_prefix(end + 2);
  }
  const bool is_empty = !has_body_ || answer_.status == 204 || answer_.status == 304;
  if (!has_length_ && !is_empty) {
    return corrupt("an answer without Content-Length");
  }
  left_ = is_empty ? 0 : answer_.length;
  if (keeps_text_ && left_ > kMaxText) {
    return corrupt("the body is too long to look into");
  }
  return {};
}

Result<void> AnswerReader::parse_field(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) {
    return corrupt("not a header field: " + std::string(line.substr(0, 100)));
  }
  const std::string_view name = line.substr(0, colon);
  const std::string_view value = trim(line.substr(colon + 1));
  if (equal_ignoring_case(name, "Content-Length")) {
    const Result<std::int64_t> length = parse_int(value);
    if (!length || *length < 0 || has_length_) {
      return corrupt("Content-Length: " + std::string(value));
    }
    has_length_ = true;
    answer_.length = static_cast<std::uint64_t>(*length);
  } else if (equal_ignoring_case(name, "Transfer-Encoding")) {
    return corrupt("Transfer-Encoding: " + std::string(value) + " is not understood");
  } else if (equal_ignoring_case(name, "Connection")) {
    answer_.closes = equal_ignoring_case(value, "close");
  }
  return {};
}

Result<void> AnswerReader::take_body(std::string_view bytes) {
  if (bytes.size() > left_) {
    return corrupt("bytes after the end of an answer");
  }
  answer_.checksum = crc32c(std::as_bytes(std::span(bytes)), answer_.checksum);
  if (keeps_text_) {
    answer_.text += bytes;
  }
  left_ -= bytes.size();
  return {};
}

}  // namespace trainyard::load
