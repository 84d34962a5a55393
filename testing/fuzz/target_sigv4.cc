// SPDX-License-Identifier: Apache-2.0
// Signatures in headers and in queries. An input is a request's head: "METHOD path?query", then
// "name: value" lines. It is verified as it stands and must not be accepted with anything of it
// altered; and it is signed and presigned by us, which must verify.
#include <string>
#include <utility>
#include <variant>

#include "base/text.h"
#include "http/sigv4.h"
#include "testing/fuzz/fuzz.h"

namespace {

namespace http = trainyard::http;
using trainyard::fuzz::take_until;

// What make_corpus.py signs with, and when.
const http::Credentials kCredentials{"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"};
constexpr std::string_view kBodyHash =
    "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";  // of "{}"
const trainyard::WallTime kNow{std::chrono::seconds(1'764'500'000)};

bool accepts(const http::Request& request) {
  const bool is_s3 = request.headers.find("x-amz-content-sha256") != nullptr ||
                     request.query.find("Signature=") != std::string::npos;
  const auto lookup = [](std::string_view id) -> std::optional<http::KnownKey> {
    if (id != kCredentials.access_key_id) {
      return std::nullopt;
    }
    return http::KnownKey{.secret_access_key = kCredentials.secret_access_key};
  };
  const auto result = http::verify(request, is_s3 ? "" : kBodyHash, lookup, kNow);
  if (const auto* error = std::get_if<http::AuthError>(&result)) {
    YARD_CHECK(error->message.find(kCredentials.secret_access_key) == std::string::npos,
               "an error shows the secret");
    return false;
  }
  return true;
}

http::Request read_request(std::string_view text) {
  std::string_view first = take_until(text, '\n');
  http::Request request{.method = std::string(take_until(first, ' ')), .path = {}};
  request.path = take_until(first, '?');
  request.query = first;
  while (!text.empty()) {
    std::string_view value = take_until(text, '\n');
    const std::string name(take_until(value, ':'));
    request.headers.add(name, std::string(trainyard::trim(value)));
  }
  return request;
}

// Each signed part of an accepted request, altered.
void check_that_alterations_are_refused(const http::Request& request) {
  http::Request other = request;
  other.method += "X";
  YARD_CHECK(!accepts(other), "accepted with another method");
  other = request;
  other.path += "x";
  YARD_CHECK(!accepts(other), "accepted with another path");
  other = request;
  other.headers.set("x-amz-meta-added", "1");
  YARD_CHECK(!accepts(other), "accepted with an added x-amz- header");
  const bool is_v2 = request.query.find("AWSAccessKeyId=") != std::string::npos;
  other = request;
  other.query += is_v2 ? "&uploadId=1" : "&zz=1";
  YARD_CHECK(!accepts(other), "accepted with another query");
  if (!is_v2) {
    other = request;
    other.headers.set("Host", "elsewhere");
    YARD_CHECK(!accepts(other), "accepted for another host");
  }
}

bool has_own_signature(const http::Request& request) {
  return request.headers.find("Authorization") != nullptr ||
         request.query.find('X') != std::string::npos ||
         request.query.find("AWSAccessKeyId") != std::string::npos ||
         request.query.find('%') != std::string::npos;
}

void check_that_our_signature_holds(http::Request request) {
  request.headers.set("Host", "127.0.0.1:8321");
  const http::SigningScope scope{.region = "us-east-1", .service = "s3"};
  http::Request presigned = request;
  presigned.query = http::presign(request, kCredentials, scope, kNow, std::chrono::seconds(60));
  http::sign(request, http::kUnsignedPayload, kCredentials, scope, kNow);
  YARD_CHECK(accepts(request), "our own signature is refused");
  YARD_CHECK(accepts(presigned), "our own presigned URL is refused");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const http::Request request = read_request(trainyard::fuzz::as_text(data, size));
  if (accepts(request)) {
    check_that_alterations_are_refused(request);
  }
  http::Request plain{.method = "GET", .path = "/" + request.path};
  plain.query = request.query;
  if (!has_own_signature(request)) {
    check_that_our_signature_holds(std::move(plain));
  }
  return 0;
}
