// SPDX-License-Identifier: Apache-2.0
#include "store/call.h"

namespace trainyard::store {

void Call::complete(http::Response& response) const {
  add_request_id(response, request_id);
  for (const auto& [name, value] : extra.fields()) {
    response.headers.set(name, value);
  }
}

Result<void> Call::still_holds() const {
  if (!options.still_holds) {
    return {};
  }
  Result<void> holds = options.still_holds(verified);
  if (!holds && holds.error().code == Code::kDenied) {
    holds.error().subject = "access";
  }
  return holds;
}

void Call::respond(http::Response response) {
  answered_ = true;
  complete(response);
  exchange.respond(std::move(response));
}

void Call::respond_xml(s3::XmlWriter& xml, http::Headers headers) {
  headers.set("Content-Type", "application/xml");
  respond({.status = 200, .headers = std::move(headers), .body = xml.finish()});
}

Result<void> Call::start(http::Response head, std::uint64_t length) {
  answered_ = true;
  complete(head);
  return exchange.start(std::move(head), length);
}

void add_request_id(http::Response& response, std::string_view request_id) {
  response.headers.set("x-amz-request-id", std::string(request_id));
  response.headers.set("x-amz-id-2", std::string(request_id));
}

std::string xml_time(WallTime time) {
  return to_iso8601(time);
}

}  // namespace trainyard::store
