// SPDX-License-Identifier: Apache-2.0
#include "comm/rendezvous/frame.h"

#include <algorithm>

#include <fmt/format.h>

namespace trainyard::comm {
namespace {

constexpr std::string_view kMagic = "TYC";
constexpr std::size_t kHeader = 8;

void put_u32(std::string& out, std::size_t value) {
  for (int shift = 0; shift < 32; shift += 8) {
    out.push_back(static_cast<char>((value >> shift) & 0xff));
  }
}

std::size_t get_u32(std::string_view bytes) {
  std::size_t value = 0;
  for (int i = 3; i >= 0; --i) {
    value = value << 8 | static_cast<unsigned char>(bytes[static_cast<std::size_t>(i)]);
  }
  return value;
}

Result<void> check_header(std::string_view bytes) {
  const std::string_view magic = bytes.substr(0, kMagic.size());
  if (magic != kMagic.substr(0, magic.size())) {
    return Error{Code::kCorrupt, "this is not Trainyard's protocol"};
  }
  if (bytes.size() > kMagic.size()) {
    const auto version = static_cast<std::uint8_t>(bytes[kMagic.size()]);
    if (version != kProtocolVersion) {
      return Error{Code::kConflict,
                   fmt::format("the peer speaks version {} of the protocol, this side version {}: "
                               "use one version of trainyard on all hosts",
                               version, kProtocolVersion)};
    }
  }
  return {};
}

Result<Fields> parse_fields(std::string_view payload) {
  Fields fields;
  while (!payload.empty()) {
    if (payload.size() < 4 || get_u32(payload) > payload.size() - 4) {
      return Error{Code::kCorrupt, "a field is longer than its message"};
    }
    const std::size_t length = get_u32(payload);
    fields.emplace_back(payload.substr(4, length));
    payload.remove_prefix(4 + length);
  }
  return fields;
}

}  // namespace

std::string encode_frame(const Fields& fields, std::uint8_t version) {
  std::string payload;
  for (const std::string& field : fields) {
    put_u32(payload, field.size());
    payload += field;
  }
  std::string frame(kMagic);
  frame.push_back(static_cast<char>(version));
  put_u32(frame, payload.size());
  return frame + payload;
}

Result<std::optional<Fields>> FrameReader::next() {
  const std::string_view bytes = std::string_view(buffer_).substr(start_);
  YARD_TRY(check_header(bytes));
  if (bytes.size() < kHeader) {
    return std::optional<Fields>();
  }
  const std::size_t length = get_u32(bytes.substr(4));
  if (length > most_) {
    return Error{Code::kCorrupt, fmt::format("a message of {} bytes is not ours", length)};
  }
  if (bytes.size() < kHeader + length) {
    return std::optional<Fields>();
  }
  YARD_TRY(Fields fields, parse_fields(bytes.substr(kHeader, length)));
  start_ += kHeader + length;
  if (start_ == buffer_.size() || start_ > kMaxFrame) {
    buffer_.erase(0, start_);
    start_ = 0;
  }
  return std::optional<Fields>(std::move(fields));
}

}  // namespace trainyard::comm
