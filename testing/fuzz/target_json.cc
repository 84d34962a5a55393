// SPDX-License-Identifier: Apache-2.0
// Bodies of API calls against AWS's shapes. The first byte chooses the operation and, in its top
// bit, JSON or a form. Every body is valid or refused with one bounded UTF-8 message; a value that
// was read is read again from its own text.
#include <string>

#include <nlohmann/json.hpp>

#include "api/errors.h"
#include "api/model.h"
#include "api/query.h"
#include "api/validate.h"
#include "base/encoding.h"
#include "formats/json.h"
#include "testing/fuzz/fuzz.h"

namespace {

namespace api = trainyard::api;
using nlohmann::json;

void check(const api::Operation& operation, const json& input) {
  const auto valid = api::validate(operation.service, operation.name, input);
  YARD_CHECK(api::unknown_members(operation.service, operation.name, input).size() <= 20,
             "too many unknown members");
  if (valid) {
    return;
  }
  const std::string& message = valid.error().message;
  YARD_CHECK(!message.empty() && message.size() < 80'000, "a message without bound");
  YARD_CHECK(trainyard::to_valid_utf8(message) == message, "a message that is not UTF-8");
  const auto wire = api::to_wire(valid.error(), operation.service, operation.name);
  YARD_CHECK(wire.http_status >= 400 && wire.http_status < 500,
             "a bad input is the client's fault");
  YARD_CHECK(trainyard::parse_json(api::json_error_body(wire)).has_value(), "an error is JSON");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view body = trainyard::fuzz::as_text(data, size);
  const std::uint8_t choice = trainyard::fuzz::take_byte(body);
  const api::Operation& operation = api::operations()[(choice & 0x7F) % api::operations().size()];
  if ((choice & 0x80) != 0) {
    check(operation, api::read_query(operation.service, operation.name, body));
    return 0;
  }
  const auto input = trainyard::parse_json(body);
  if (!input) {
    return 0;
  }
  const auto again = trainyard::parse_json(trainyard::dump_json(*input));
  YARD_CHECK(again.has_value() && *again == *input, "a value changes when it is read again");
  check(operation, *input);
  return 0;
}
