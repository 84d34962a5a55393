// SPDX-License-Identifier: Apache-2.0
// Digests and checksums as S3, SigV4 and the formats need them. Digest algorithms are fetched from
// OpenSSL once per process (a fetch per call costs more than hashing a small message).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace trainyard {

enum class HashKind { kMd5, kSha1, kSha256, kCrc32, kCrc32c, kCrc64Nvme };

// One running hash. finish() gives the raw big-endian bytes, as S3's base64 headers encode them.
class Hasher {
 public:
  explicit Hasher(HashKind kind);
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  ~Hasher();

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string hash_of(HashKind kind, std::string_view text);  // raw bytes
std::string sha256_hex(std::string_view text);
std::string hmac_sha256(std::string_view key, std::string_view text);  // raw 32 bytes

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t seed = 0);

// Compares in time that depends on the lengths only.
bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace trainyard
