// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/tcp/header.h"

#include <bit>
#include <cstring>

namespace trainyard::comm {
namespace {

static_assert(std::endian::native == std::endian::little, "headers are written as they lie");

constexpr std::uint32_t kMark = 0x016d5954;  // "TYm", version 1

struct Raw {
  std::uint32_t mark;
  std::uint32_t bytes;
  std::uint64_t sequence;
  Signature signature;
};
static_assert(sizeof(Raw) == kHeaderBytes);

}  // namespace

std::array<std::byte, kHeaderBytes> encode(const MessageHeader& header) {
  const Raw raw{.mark = kMark,
                .bytes = static_cast<std::uint32_t>(header.bytes),
                .sequence = header.label.sequence,
                .signature = header.label.signature};
  std::array<std::byte, kHeaderBytes> bytes;
  std::memcpy(bytes.data(), &raw, sizeof(raw));
  return bytes;
}

std::optional<MessageHeader> decode_header(std::span<const std::byte, kHeaderBytes> bytes) {
  Raw raw;
  std::memcpy(&raw, bytes.data(), sizeof(raw));
  if (raw.mark != kMark) {
    return std::nullopt;
  }
  return MessageHeader{.label = {.sequence = raw.sequence, .signature = raw.signature},
                       .bytes = raw.bytes};
}

}  // namespace trainyard::comm
