// SPDX-License-Identifier: Apache-2.0
// One request on its way through the S3 face: what the operations need of it, and their answers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "http/server.h"
#include "http/sigv4.h"
#include "s3/object_store.h"
#include "s3/xml.h"
#include "store/s3_service.h"
#include "store/target.h"

namespace trainyard::store {

// What all requests share.
struct Service {
  s3::ObjectStore& store;
  const Options& options;
};

class Call {
 public:
  Call(http::Exchange& with, const http::Verified& by, const Target& about, const Service& service)
      : exchange(with),
        verified(by),
        target(about),
        store(service.store),
        options(service.options) {}

  http::Exchange& exchange;
  const http::Verified& verified;
  const Target& target;
  s3::ObjectStore& store;
  const Options& options;
  std::string request_id = {};
  http::Headers extra = {};  // of every answer: what lets a page of another origin read it

  const http::Headers& headers() const { return exchange.request().headers; }
  bool is_head() const { return exchange.request().method == "HEAD"; }

  // Whether the key that has signed the request still holds.
  Result<void> still_holds() const;

  // Each answers once; the request's id is added.
  void respond(http::Response response);
  void respond_xml(s3::XmlWriter& xml, http::Headers headers = {});
  Result<void> start(http::Response head, std::uint64_t length);

  bool is_answered() const { return answered_; }

 private:
  void complete(http::Response& response) const;

  bool answered_ = false;
};

void add_request_id(http::Response& response, std::string_view request_id);

inline std::string_view yes_or_no(bool value) {
  return value ? "true" : "false";
}

// "2026-11-29T20:12:05.123Z" as S3's XML has it.
std::string xml_time(WallTime time);

}  // namespace trainyard::store
