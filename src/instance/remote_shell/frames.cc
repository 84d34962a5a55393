// SPDX-License-Identifier: Apache-2.0
#include "instance/remote_shell/frames.h"

namespace trainyard::instance {
namespace {

constexpr std::size_t kHeader = 5;

std::size_t byte_at(std::string_view text, std::size_t index) {
  return static_cast<unsigned char>(text[index]);
}

}  // namespace

std::string encode_frame(FrameKind kind, std::string_view payload) {
  std::string bytes(1, static_cast<char>(kind));
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes += static_cast<char>(payload.size() >> shift & 0xff);
  }
  return bytes.append(payload);
}

Result<std::optional<Frame>> FrameReader::next() {
  if (bytes_.size() < kHeader) {
    return std::optional<Frame>();
  }
  std::size_t size = 0;
  for (std::size_t i = 1; i < kHeader; ++i) {
    size = size << 8 | byte_at(bytes_, i);
  }
  if (size > kMaxPayload) {
    return Error{Code::kCorrupt, "a peer does not speak our protocol"};
  }
  if (bytes_.size() < kHeader + size) {
    return std::optional<Frame>();
  }
  Frame frame{.kind = static_cast<FrameKind>(byte_at(bytes_, 0)),
              .payload = bytes_.substr(kHeader, size)};
  bytes_.erase(0, kHeader + size);
  return std::optional<Frame>(std::move(frame));
}

}  // namespace trainyard::instance
