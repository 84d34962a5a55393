// SPDX-License-Identifier: Apache-2.0
// S3's checksums beside the hash functions: their names on the wire, ETags and checksums of objects
// made of parts, and the running hashes of one body (Digester). Pure; used by both stores and by
// the S3 face.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "s3/digest/md5_sha256.h"
#include "s3/object_store.h"

namespace trainyard::s3 {

inline constexpr std::array kChecksumKinds = {
    HashKind::kCrc32, HashKind::kCrc32c, HashKind::kCrc64Nvme, HashKind::kSha1, HashKind::kSha256};

std::string_view checksum_name(HashKind kind);                 // "CRC32C"
std::optional<HashKind> checksum_kind(std::string_view name);  // of such a name, any case
std::string checksum_header(HashKind kind);                    // "x-amz-checksum-crc32c"
std::optional<HashKind> checksum_kind_of_header(std::string_view header);
bool is_crc(HashKind kind);

// The CRC (raw, big-endian) of A followed by B, from those of A and B and B's length. Source: the
// linearity of CRCs, as in zlib's crc32_combine.
std::string combine_crc(HashKind kind, std::string_view a, std::string_view b,
                        std::uint64_t b_length);

// MD5 over the parts' raw MD5s, and "-<parts>". Requires 32 hex digits in each ETag.
std::string multipart_etag(std::span<const PartInfo> parts);

// The object's checksum from its parts': of the whole object (CRCs only), or composite. Empty when
// a part has none of that kind.
std::optional<Checksum> multipart_checksum(HashKind kind, bool full_object,
                                           std::span<const PartInfo> parts);

// Hashes one body as it passes and compares the results with what was promised.
class Digester {
 public:
  // MD5, and whatever `options` computes or expects. Borrows both for life; with `lanes` large
  // pieces are hashed beside those of other bodies.
  explicit Digester(const PutOptions& options, HashLanes* lanes = nullptr);

  void update(std::span<const std::byte> bytes);

  struct Digests {
    std::uint64_t size = 0;
    std::string md5_hex;
    std::vector<Checksum> checksums;
  };
  // Call once, after the last byte. kInvalidArgument with subject "length", "payload-hash" or
  // "digest" when the body is not what was promised.
  Result<Digests> finish();

 private:
  Result<void> compare(const std::vector<Checksum>& expected,
                       const std::vector<Checksum>& computed) const;

  const PutOptions& options_;
  std::uint64_t size_ = 0;
  Md5Sha256 digests_;
  std::vector<HashKind> kinds_ = {};  // of the checksums, in the order of kChecksumKinds
  std::vector<std::pair<HashKind, Hasher>> hashers_ = {};  // of those but SHA-256
};

}  // namespace trainyard::s3
