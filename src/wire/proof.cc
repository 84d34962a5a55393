// SPDX-License-Identifier: Apache-2.0
#include "wire/proof.h"

#include <algorithm>
#include <array>

#include "base/encoding.h"
#include "base/hash.h"
#include "base/text.h"

namespace trainyard::wire {
namespace {

constexpr std::size_t kIdDigits = 32;
constexpr std::size_t kSecretDigits = 64;
constexpr std::size_t kRunDigits = 32;
constexpr std::size_t kProofDigits = 64;

bool is_hex(std::string_view text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

// No part can hold a line end: methods, targets and headers come from heads of HTTP, the rest is
// ours. So two different lists never give the same text.
std::string proof(std::string_view key, const std::vector<std::string>& parts) {
  return to_hex(hmac_sha256(key, join(parts, "\n")));
}

}  // namespace

std::string make_token(std::string_view root, std::string_view id) {
  const std::string name(id);
  return name + "." + to_hex(hmac_sha256(root, "yard-instance-token\n" + name));
}

Result<Speaker> speaker_of(std::string_view token) {
  const std::string_view id = token.substr(0, token.find('.'));
  if (!is_hex(id, kIdDigits) ||
      !is_hex(token.substr(std::min(token.size(), id.size() + 1)), kSecretDigits)) {
    return Error{Code::kInvalidArgument, "the token of this instance is damaged", "token"};
  }
  return Speaker{.id = std::string(id), .key = hmac_sha256(token, "yard-instance-key")};
}

std::string to_header(const Claim& claim) {
  return std::string(kProofScheme) + " Id=" + claim.id + ", Run=" + claim.run +
         ", Number=" + std::to_string(claim.number) + ", Proof=" + claim.proof;
}

Result<Claim> claim_from_header(std::string_view header) {
  const Error wrong{Code::kDenied,
                    "the Authorization header is not " + std::string(kProofScheme) +
                        " with Id, Run, Number and Proof",
                    "token"};
  constexpr std::array<std::string_view, 4> kNames = {"Id=", "Run=", "Number=", "Proof="};
  if (!header.starts_with(kProofScheme)) {
    return wrong;
  }
  const std::vector<std::string_view> parts = split(header.substr(kProofScheme.size()), ',');
  std::array<std::string_view, kNames.size()> values;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    const std::string_view part = parts.size() == kNames.size() ? trim(parts[i]) : "";
    if (!part.starts_with(kNames[i])) {
      return wrong;
    }
    values[i] = part.substr(kNames[i].size());
  }
  const Result<std::int64_t> number = parse_int(values[2]);
  if (!is_hex(values[0], kIdDigits) || !(values[1].empty() || is_hex(values[1], kRunDigits)) ||
      !number || *number < 1 || !is_hex(values[3], kProofDigits)) {
    return wrong;
  }
  return Claim{.id = std::string(values[0]),
               .run = std::string(values[1]),
               .number = static_cast<std::uint64_t>(*number),
               .proof = std::string(values[3])};
}

std::string prove_request(std::string_view key, const Claim& claim, const Asked& asked) {
  return proof(key, {"yard-request", std::to_string(asked.version), claim.id, claim.run,
                     std::to_string(claim.number), std::string(asked.method),
                     std::string(asked.target), std::string(asked.epoch), asked.body_hash});
}

std::string prove_answer(std::string_view key, std::string_view request_proof,
                         const Answered& answered) {
  return proof(
      key, {"yard-answer", std::to_string(answered.version), std::string(request_proof),
            std::string(answered.run), std::to_string(answered.status), sha256_hex(answered.body)});
}

}  // namespace trainyard::wire
