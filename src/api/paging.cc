// SPDX-License-Identifier: Apache-2.0
#include "api/paging.h"

#include <nlohmann/json.hpp>

#include "base/encoding.h"
#include "base/hash.h"

namespace trainyard::api {
namespace {

constexpr std::size_t kMaxToken = 8'192;
constexpr std::size_t kChecksumBytes = 12;

std::string checksum(std::string_view scope, std::string_view content) {
  const std::string text =
      std::to_string(scope.size()) + ":" + std::string(scope) + std::string(content);
  return hash_of(HashKind::kSha256, text).substr(0, kChecksumBytes);
}

}  // namespace

std::string encode_token(std::string_view scope, const nlohmann::json& state) {
  const std::string content = state.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return to_base64(checksum(scope, content) + content);
}

Result<nlohmann::json> decode_token(std::string_view scope, std::string_view token) {
  const Error refusal{.code = Code::kInvalidArgument,
                      .message =
                          "The NextToken is not one that this operation has given, or "
                          "belongs to a request with other filters"};
  if (token.size() > kMaxToken) {
    return refusal;
  }
  const Result<std::string> bytes = from_base64(token);
  if (!bytes || bytes->size() < kChecksumBytes) {
    return refusal;
  }
  const std::string_view all = *bytes;
  const std::string_view content = all.substr(kChecksumBytes);
  if (checksum(scope, content) != all.substr(0, kChecksumBytes)) {
    return refusal;
  }
  nlohmann::json state = nlohmann::json::parse(content, nullptr, /*allow_exceptions=*/false);
  if (state.is_discarded()) {
    return refusal;
  }
  return state;
}

}  // namespace trainyard::api
