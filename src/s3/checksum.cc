// SPDX-License-Identifier: Apache-2.0
#include "s3/checksum.h"

#include <algorithm>

#include "base/check.h"
#include "base/encoding.h"
#include "base/text.h"

namespace trainyard::s3 {
namespace {

constexpr std::string_view kHeaderPrefix = "x-amz-checksum-";

// A reflected CRC: bit 0 of `polynomial` is the coefficient of x^(width-1), x^width is left out.
struct CrcForm {
  int width;
  std::uint64_t polynomial;
};

CrcForm form_of(HashKind kind) {
  switch (kind) {
    case HashKind::kCrc32:
      return {32, 0xEDB88320U};
    case HashKind::kCrc32c:
      return {32, 0x82F63B78U};
    default:
      YARD_CHECK(kind == HashKind::kCrc64Nvme, "only CRCs can be combined");
      return {64, 0x9A6C9329AC4BC9B5U};
  }
}

// a * b modulo the polynomial, both reflected: x^0 is the highest bit.
std::uint64_t multiply(const CrcForm& form, std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  for (std::uint64_t bit = std::uint64_t{1} << (form.width - 1); bit != 0; bit >>= 1) {
    if ((a & bit) != 0) {
      product ^= b;
    }
    b = (b & 1) != 0 ? (b >> 1) ^ form.polynomial : b >> 1;
  }
  return product;
}

// x^(8 * bytes) modulo the polynomial, by repeated squaring.
std::uint64_t power_of_bytes(const CrcForm& form, std::uint64_t bytes) {
  const std::uint64_t one = std::uint64_t{1} << (form.width - 1);
  std::uint64_t result = one;
  std::uint64_t square = one >> 8;
  for (; bytes != 0; bytes >>= 1) {
    if ((bytes & 1) != 0) {
      result = multiply(form, result, square);
    }
    square = multiply(form, square, square);
  }
  return result;
}

std::uint64_t from_big_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (const char byte : bytes) {
    value = value << 8 | static_cast<unsigned char>(byte);
  }
  return value;
}

std::string to_big_endian(std::uint64_t value, int width) {
  std::string bytes;
  for (int shift = width - 8; shift >= 0; shift -= 8) {
    bytes.push_back(static_cast<char>(value >> shift & 0xFF));
  }
  return bytes;
}

const Checksum* find(const std::vector<Checksum>& checksums, HashKind kind) {
  const auto it = std::ranges::find(checksums, kind, &Checksum::kind);
  return it == checksums.end() ? nullptr : &*it;
}

bool wants(const PutOptions& options, HashKind kind) {
  return std::ranges::find(options.compute, kind) != options.compute.end() ||
         find(options.expected, kind) != nullptr;
}

Error mismatch(std::string_view what, std::string_view promised, std::string_view found) {
  return Error{Code::kInvalidArgument,
               "the " + std::string(what) + " of the content is " + std::string(found) + ", not " +
                   std::string(promised),
               "digest"};
}

}  // namespace

std::string_view checksum_name(HashKind kind) {
  switch (kind) {
    case HashKind::kMd5:
      return "MD5";
    case HashKind::kSha1:
      return "SHA1";
    case HashKind::kSha256:
      return "SHA256";
    case HashKind::kCrc32:
      return "CRC32";
    case HashKind::kCrc32c:
      return "CRC32C";
    case HashKind::kCrc64Nvme:
      return "CRC64NVME";
  }
  return "";
}

std::optional<HashKind> checksum_kind(std::string_view name) {
  for (const HashKind kind : kChecksumKinds) {
    if (equal_ignoring_case(name, checksum_name(kind))) {
      return kind;
    }
  }
  return std::nullopt;
}

std::string checksum_header(HashKind kind) {
  return std::string(kHeaderPrefix) + lower(checksum_name(kind));
}

std::optional<HashKind> checksum_kind_of_header(std::string_view header) {
  if (!equal_ignoring_case(header.substr(0, kHeaderPrefix.size()), kHeaderPrefix)) {
    return std::nullopt;
  }
  return checksum_kind(header.substr(kHeaderPrefix.size()));
}

bool is_crc(HashKind kind) {
  return kind == HashKind::kCrc32 || kind == HashKind::kCrc32c || kind == HashKind::kCrc64Nvme;
}

std::string combine_crc(HashKind kind, std::string_view a, std::string_view b,
                        std::uint64_t b_length) {
  const CrcForm form = form_of(kind);
  const std::uint64_t shifted = multiply(form, power_of_bytes(form, b_length), from_big_endian(a));
  return to_big_endian(shifted ^ from_big_endian(b), form.width);
}

std::string multipart_etag(std::span<const PartInfo> parts) {
  Hasher md5(HashKind::kMd5);
  for (const PartInfo& part : parts) {
    md5.update(from_hex(part.etag).value_or(""));
  }
  return to_hex(md5.finish()) + "-" + std::to_string(parts.size());
}

std::optional<Checksum> multipart_checksum(HashKind kind, bool full_object,
                                           std::span<const PartInfo> parts) {
  Hasher composite(kind);
  std::string whole = hash_of(kind, "");
  for (const PartInfo& part : parts) {
    const Checksum* checksum = find(part.checksums, kind);
    if (checksum == nullptr) {
      return std::nullopt;
    }
    const std::string raw = from_base64(checksum->base64).value_or("");
    composite.update(raw);
    if (full_object) {
      whole = combine_crc(kind, whole, raw, part.size);
    }
  }
  if (full_object) {
    return Checksum{.kind = kind, .base64 = to_base64(whole), .composite = false};
  }
  return Checksum{.kind = kind,
                  .base64 = to_base64(composite.finish()) + "-" + std::to_string(parts.size()),
                  .composite = true};
}

Digester::Digester(const PutOptions& options, HashLanes* lanes)
    : options_(options),
      digests_(options.expected_sha256 || wants(options, HashKind::kSha256), lanes) {
  for (const HashKind kind : kChecksumKinds) {
    if (!wants(options, kind)) {
      continue;
    }
    kinds_.push_back(kind);
    if (kind != HashKind::kSha256) {
      hashers_.emplace_back(kind, Hasher(kind));
    }
  }
}

void Digester::update(std::span<const std::byte> bytes) {
  size_ += bytes.size();
  digests_.update(bytes);
  for (auto& [kind, hasher] : hashers_) {
    hasher.update(bytes);
  }
}

Result<Digester::Digests> Digester::finish() {
  if (options_.length && *options_.length != size_) {
    return Error{Code::kInvalidArgument,
                 "the content has " + std::to_string(size_) + " bytes, not the announced " +
                     std::to_string(*options_.length),
                 "length"};
  }
  const auto [md5, sha256] = digests_.finish();
  if (options_.expected_sha256 && to_hex(sha256) != lower(*options_.expected_sha256)) {
    return Error{Code::kInvalidArgument,
                 "the content is not what the signature covers: its SHA-256 differs",
                 "payload-hash"};
  }
  if (options_.expected_md5 && md5 != *options_.expected_md5) {
    return mismatch("MD5", to_hex(*options_.expected_md5), to_hex(md5));
  }
  Digests digests{.size = size_, .md5_hex = to_hex(md5), .checksums = {}};
  auto hasher = hashers_.begin();
  for (const HashKind kind : kinds_) {
    const std::string raw = kind == HashKind::kSha256 ? sha256 : (hasher++)->second.finish();
    digests.checksums.push_back({.kind = kind, .base64 = to_base64(raw)});
  }
  YARD_TRY(compare(options_.expected, digests.checksums));
  if (options_.expected_at_end) {
    YARD_TRY(const auto late, options_.expected_at_end());
    YARD_TRY(compare(late, digests.checksums));
  }
  return digests;
}

Result<void> Digester::compare(const std::vector<Checksum>& expected,
                               const std::vector<Checksum>& computed) const {
  for (const Checksum& promised : expected) {
    const Checksum* found = find(computed, promised.kind);
    if (found == nullptr) {
      return Error{Code::kInvalidArgument,
                   "a checksum came after the content that was not announced before it", "digest"};
    }
    if (found->base64 != promised.base64) {
      return mismatch(checksum_name(promised.kind), promised.base64, found->base64);
    }
  }
  return {};
}

}  // namespace trainyard::s3
