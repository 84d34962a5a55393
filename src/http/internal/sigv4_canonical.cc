// SPDX-License-Identifier: Apache-2.0
#include "http/internal/sigv4_canonical.h"

#include <algorithm>
#include <utility>

#include "base/encoding.h"
#include "base/hash.h"
#include "base/text.h"

namespace trainyard::http {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

std::string collapse_blanks(std::string_view text) {
  std::string out;
  for (const char c : trim(text)) {
    if (!is_blank(c)) {
      out += c;
    } else if (out.back() != ' ') {  // trimmed: the first character is never blank
      out += ' ';
    }
  }
  return out;
}

// Decodes where it can: a malformed escape stands for itself, and the signature will not match.
std::string decode_or_keep(std::string_view text) {
  auto decoded = uri_decode(text);
  return decoded ? std::move(*decoded) : std::string(text);
}

}  // namespace

bool is_s3(std::string_view service) {
  return service == "s3" || service.starts_with("s3-");
}

std::string scope_text(std::string_view time, const SigningScope& scope) {
  return std::string(time.substr(0, 8)) + "/" + scope.region + "/" + scope.service +
         "/aws4_request";
}

std::string canonical_path(std::string_view wire_path) {
  std::vector<std::string_view> kept;
  bool ends_in_slash = false;
  for (const std::string_view segment : split(wire_path, '/')) {
    ends_in_slash = segment.empty() || segment == "." || segment == "..";
    if (segment == ".." && !kept.empty()) {
      kept.pop_back();
    } else if (!ends_in_slash) {
      kept.push_back(segment);
    }
  }
  std::string path;
  for (const std::string_view segment : kept) {
    path += "/" + uri_encode(segment);
  }
  return ends_in_slash || path.empty() ? path + "/" : path;
}

std::string reencoded_path(std::string_view wire_path) {
  return uri_encode(decode_or_keep(wire_path), /*keep_slash=*/true);
}

std::string canonical_query(std::string_view wire_query, std::string_view leave_out) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string_view part : split(wire_query, '&')) {
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string name = decode_or_keep(part.substr(0, equals));
    if (part.empty() || (!leave_out.empty() && name == leave_out)) {
      continue;
    }
    const std::string_view value = part.substr(std::min(equals + 1, part.size()));
    pairs.emplace_back(uri_encode(name), uri_encode(decode_or_keep(value)));
  }
  std::sort(pairs.begin(), pairs.end());
  std::string out;
  for (const auto& [name, value] : pairs) {
    out.append(out.empty() ? "" : "&").append(name).append("=").append(value);
  }
  return out;
}

std::string canonical_value(const Headers& headers, std::string_view name) {
  std::string out;
  bool is_first = true;
  for (const auto& [key, value] : headers.fields()) {
    if (equal_ignoring_case(key, name)) {
      out += (is_first ? "" : ",") + collapse_blanks(value);
      is_first = false;
    }
  }
  return out;
}

std::string canonical_request(const Request& request, const CanonicalParts& parts) {
  std::string out = request.method + "\n" + parts.path + "\n" + parts.query + "\n";
  for (const std::string& name : parts.signed_headers) {
    out += name + ":" + canonical_value(request.headers, name) + "\n";
  }
  return out + "\n" + join(parts.signed_headers, ";") + "\n" + parts.payload_hash;
}

std::string string_to_sign(std::string_view time, std::string_view scope,
                           std::string_view canonical) {
  std::string out(kAlgorithm);
  out.append("\n").append(time).append("\n").append(scope).append("\n");
  return out + sha256_hex(canonical);
}

std::string signing_key(std::string_view secret, std::string_view time, const SigningScope& scope) {
  std::string key = hmac_sha256("AWS4" + std::string(secret), time.substr(0, 8));
  key = hmac_sha256(key, scope.region);
  key = hmac_sha256(key, scope.service);
  return hmac_sha256(key, "aws4_request");
}

std::string signature_of(std::string_view key, std::string_view to_sign) {
  return to_hex(hmac_sha256(key, to_sign));
}

}  // namespace trainyard::http
