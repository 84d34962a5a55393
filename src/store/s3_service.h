// SPDX-License-Identifier: Apache-2.0
// The S3 face of an ObjectStore: REST in path and virtual-host style, XML answers, as far as the
// usual tools use S3 for training work. The server has verified the request's signature and hands
// it over; this checks the body against what the signature promised, runs the operation and
// answers, on the caller's thread. It decides nothing about who may do what. What it does not know
// it refuses with NotImplemented, in XML.
//
// Memory: buffers of 256 KiB for object bodies; XML bodies of at most 1 MiB (4 MiB to complete an
// upload).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "http/message.h"
#include "http/server.h"
#include "http/sigv4.h"
#include "http/sigv4_form.h"
#include "s3/object_store.h"

namespace trainyard::store {

// Verifies the signature of an HTML form.
using FormCheck =
    std::function<std::variant<http::Verified, http::AuthError>(const http::SignedForm&)>;

struct Options {
  std::string region = "us-east-1";
  std::string account_id =
      "000000000000";  // owner of every bucket, for x-amz-expected-bucket-owner
  // Whether the key of a request that was verified still holds. Asked when a write is about to
  // become visible: its body may have taken long, and what lost its key meanwhile must not replace
  // what others have put since. Empty: always.
  std::function<Result<void>(const http::Verified&)> still_holds = {};
  // Lower case. A host "<bucket>.<domain>" names its bucket (virtual-host style); any other host,
  // and a domain itself, leaves that to the path.
  std::vector<std::string> domains = {"localhost"};
  std::string tls_listener = {};  // the tag of the listener whose clients speak TLS
};

class S3Service {
 public:
  // `store` and `clock` are borrowed for life.
  S3Service(s3::ObjectStore& store, Options options, Clock& clock);

  // Always answers. May be called from many threads at once.
  void handle(std::unique_ptr<http::Exchange> exchange, const http::Verified& verified);

  // Always answers a request whose signature does not hold: with that failure, or, to the OPTIONS
  // that a browser sends before a request, with what the bucket's CORS configuration says.
  void handle_unsigned(std::unique_ptr<http::Exchange> exchange, const http::AuthError& failure);

  // Always answers a POST of an HTML form (post_object.h), which carries its signature in a field.
  void handle_form(std::unique_ptr<http::Exchange> exchange, const FormCheck& check);

  // A fresh value for x-amz-request-id, for answers that the server gives in this service's place.
  std::string next_request_id();

  // `resource` is the request's path as sent.
  static http::Response error_response(const Error& error, std::string_view resource,
                                       std::string_view request_id);

 private:
  s3::ObjectStore& store_;
  Options options_;
  Clock& clock_;
  std::atomic<std::uint64_t> requests_{0};
};

// The answer to a request whose signature does not hold.
http::Response auth_error_response(const http::AuthError& error, std::string_view resource,
                                   std::string_view request_id);

}  // namespace trainyard::store
