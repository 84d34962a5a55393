// SPDX-License-Identifier: Apache-2.0
// NextToken: where the next page starts, as text that clients hand back unread. A token carries a
// checksum over its content and its scope, so that garbage, a cut token, or one of another request
// is refused instead of misread. It is no secret and no proof: whoever decodes one treats the state
// as input.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"

namespace trainyard::api {

// `scope` names what the state belongs to: the operation, and the filters where they must not
// change between pages. `state` should be small: tokens are at most 8,192 characters on the wire.
std::string encode_token(std::string_view scope, const nlohmann::json& state);

// kInvalidArgument for anything that encode_token(scope, ...) has not made.
Result<nlohmann::json> decode_token(std::string_view scope, std::string_view token);

}  // namespace trainyard::api
