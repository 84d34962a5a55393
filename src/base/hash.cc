// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <array>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <zlib.h>

#include "base/check.h"
#include "base/crc.h"
#include "base/encoding.h"

namespace trainyard {
namespace {

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

// Kept for the life of the process: OpenSSL tears itself down at exit, possibly before our statics.
const EVP_MD* fetch(const char* name) {
  const EVP_MD* algorithm = EVP_MD_fetch(nullptr, name, nullptr);
  YARD_CHECK(algorithm != nullptr, name);
  return algorithm;
}

const EVP_MD* algorithm_of(HashKind kind) {
  static const EVP_MD* const kMd5 = fetch("MD5");
  static const EVP_MD* const kSha1 = fetch("SHA1");
  static const EVP_MD* const kSha256 = fetch("SHA256");
  switch (kind) {
    case HashKind::kMd5:
      return kMd5;
    case HashKind::kSha1:
      return kSha1;
    case HashKind::kSha256:
      return kSha256;
    default:
      return nullptr;
  }
}

std::string big_endian(std::uint64_t value, std::size_t bytes) {
  std::string out(bytes, '\0');
  for (std::size_t i = bytes; i-- > 0; value >>= 8) {
    out[i] = static_cast<char>(value & 0xff);
  }
  return out;
}

}  // namespace

struct Hasher::State {
  HashKind kind;
  std::unique_ptr<EVP_MD_CTX, FreeContext> context;  // none for the checksums
  std::uint64_t checksum = 0;
};

Hasher::Hasher(HashKind kind) : state_(std::make_unique<State>()) {
  state_->kind = kind;
  if (const EVP_MD* algorithm = algorithm_of(kind)) {
    state_->context.reset(EVP_MD_CTX_new());
    YARD_CHECK(state_->context && EVP_DigestInit_ex(state_->context.get(), algorithm, nullptr) == 1,
               "a digest starts");
  }
}

Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;
Hasher::~Hasher() = default;

void Hasher::update(std::span<const std::byte> bytes) {
  YARD_CHECK(state_ != nullptr, "update() comes before finish()");
  State& s = *state_;
  switch (s.kind) {
    case HashKind::kCrc32:
      s.checksum = crc32_z(s.checksum, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
      return;
    case HashKind::kCrc32c:
      s.checksum = crc32c(bytes, static_cast<std::uint32_t>(s.checksum));
      return;
    case HashKind::kCrc64Nvme:
      s.checksum = crc64_nvme(bytes, s.checksum);
      return;
    default:
      YARD_CHECK(EVP_DigestUpdate(s.context.get(), bytes.data(), bytes.size()) == 1,
                 "a digest takes bytes");
  }
}

void Hasher::update(std::string_view text) {
  update(std::as_bytes(std::span(text)));
}

std::string Hasher::finish() {
  YARD_CHECK(state_ != nullptr, "finish() is called once");
  const auto state = std::move(state_);
  State& s = *state;
  if (!s.context) {
    return big_endian(s.checksum, s.kind == HashKind::kCrc64Nvme ? 8 : 4);
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int length = 0;
  YARD_CHECK(EVP_DigestFinal_ex(s.context.get(), digest.data(), &length) == 1, "a digest ends");
  return {reinterpret_cast<const char*>(digest.data()), length};
}

std::string hash_of(HashKind kind, std::string_view text) {
  Hasher hasher(kind);
  hasher.update(text);
  return hasher.finish();
}

std::string sha256_hex(std::string_view text) {
  return to_hex(hash_of(HashKind::kSha256, text));
}

// RFC 2104, by hand: OpenSSL's HMAC() looks its algorithm up again on every call.
std::string hmac_sha256(std::string_view key, std::string_view text) {
  constexpr std::size_t kBlock = 64;
  std::string block(key.size() > kBlock ? hash_of(HashKind::kSha256, key) : std::string(key));
  block.resize(kBlock, '\0');
  std::string inner_pad = block;
  std::string outer_pad = block;
  for (std::size_t i = 0; i < kBlock; ++i) {
    inner_pad[i] = static_cast<char>(inner_pad[i] ^ 0x36);
    outer_pad[i] = static_cast<char>(outer_pad[i] ^ 0x5c);
  }
  Hasher inner(HashKind::kSha256);
  inner.update(inner_pad);
  inner.update(text);
  Hasher outer(HashKind::kSha256);
  outer.update(outer_pad);
  outer.update(inner.finish());
  return outer.finish();
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace trainyard
