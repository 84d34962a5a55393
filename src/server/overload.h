// SPDX-License-Identifier: Apache-2.0
// What a request is told for which there is no room: from its head alone, unverified and at once,
// the error that the SDKs of its service take for a reason to wait and ask again.
#pragma once

#include <string_view>

#include "http/message.h"

namespace trainyard::server {

// ThrottlingException 400 for the JSON services, Throttling 400 for the query ones, SlowDown 503
// for S3, and a plain 503 for instances, which repeat what was not answered.
http::Response overload_response(const http::Request& request, std::string_view request_id);

}  // namespace trainyard::server
