// SPDX-License-Identifier: Apache-2.0
#include "http/internal/sigv2.h"

#include <algorithm>
#include <array>
#include <map>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/encoding.h"
#include "base/text.h"
#include "http/internal/sigv4_canonical.h"

namespace trainyard::http {
namespace {

// The query parameters that name a part of the resource, and so are signed; sorted.
constexpr std::array<std::string_view, 35> kSubresources = {"accelerate",
                                                            "acl",
                                                            "analytics",
                                                            "cors",
                                                            "defaultObjectAcl",
                                                            "delete",
                                                            "inventory",
                                                            "lifecycle",
                                                            "location",
                                                            "logging",
                                                            "metrics",
                                                            "notification",
                                                            "object-lock",
                                                            "partNumber",
                                                            "policy",
                                                            "replication",
                                                            "requestPayment",
                                                            "response-cache-control",
                                                            "response-content-disposition",
                                                            "response-content-encoding",
                                                            "response-content-language",
                                                            "response-content-type",
                                                            "response-expires",
                                                            "restore",
                                                            "select",
                                                            "select-type",
                                                            "storageClass",
                                                            "tagging",
                                                            "torrent",
                                                            "uploadId",
                                                            "uploads",
                                                            "versionId",
                                                            "versioning",
                                                            "versions",
                                                            "website"};

std::string_view value_in(const QueryPairs& pairs, std::string_view name) {
  const auto found = std::find_if(pairs.begin(), pairs.end(),
                                  [&](const auto& pair) { return pair.first == name; });
  return found == pairs.end() ? std::string_view{} : std::string_view(found->second);
}

// Presigning moves headers into the query: a value counts wherever it came.
std::string header_or_query(const Request& request, const QueryPairs& pairs,
                            std::string_view name) {
  const std::string* header = request.headers.find(name);
  return std::string(header != nullptr ? trim(*header) : value_in(pairs, name));
}

std::string amz_headers(const Request& request, const QueryPairs& pairs) {
  std::map<std::string, std::string> fields;
  for (const auto& [name, value] : pairs) {
    if (lower(name).starts_with("x-amz-")) {
      fields[lower(name)] = value;
    }
  }
  for (const auto& [name, value] : request.headers.fields()) {
    if (lower(name).starts_with("x-amz-")) {
      fields[lower(name)] = canonical_value(request.headers, name);
    }
  }
  std::string out;
  for (const auto& [name, value] : fields) {
    out.append(name).append(":").append(value).append("\n");
  }
  return out;
}

// "uploads" and "uploads=" differ here, so this reads the wire form.
std::string resource_of(const Request& request, const std::string& path) {
  std::vector<std::string> kept;
  for (const std::string_view part : split(request.query, '&')) {
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string_view name = part.substr(0, equals);
    if (std::binary_search(kSubresources.begin(), kSubresources.end(), name)) {
      auto value = uri_decode(part.substr(equals));
      kept.push_back(std::string(name) + (value ? *value : std::string(part.substr(equals))));
    }
  }
  std::sort(kept.begin(), kept.end());
  return path + (kept.empty() ? "" : "?" + join(kept, "&"));
}

}  // namespace

std::string sigv2_signature(const Request& request, const std::string& path,
                            const QueryPairs& pairs, std::string_view expires,
                            std::string_view secret) {
  const std::string to_sign =
      request.method + "\n" + header_or_query(request, pairs, "content-md5") + "\n" +
      header_or_query(request, pairs, "content-type") + "\n" + std::string(expires) + "\n" +
      amz_headers(request, pairs) + resource_of(request, path);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  HMAC(EVP_sha1(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(to_sign.data()), to_sign.size(), digest.data(),
       &length);
  return to_base64(std::string_view(reinterpret_cast<const char*>(digest.data()), length));
}

}  // namespace trainyard::http
