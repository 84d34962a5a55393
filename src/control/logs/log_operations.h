// SPDX-License-Identifier: Apache-2.0
// The operations of CloudWatch Logs that clients use to read: DescribeLogGroups,
// DescribeLogStreams, GetLogEvents, FilterLogEvents. JSON in, JSON out, over a LogStore; nothing is
// kept between calls, tokens hold all there is. Control::call hands requests on to it.
//
// Two rules that clients depend on: nextToken is there only when more remains (an SDK asks again
// without passing it), and at the end of a stream GetLogEvents answers with no events and the
// forward token that it was given (that is how a follower knows that it has caught up).
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "control/logs/log_store.h"

namespace trainyard::control {

// What ARNs are made of.
struct LogPlace {
  std::string region = "us-east-1";
  std::string account = "123456789012";
};

// kInvalidArgument (with subject "serialization" for a wrong JSON type), kNotFound as LogStore
// says, kUnimplemented with subject "operation".
Result<nlohmann::json> call_logs(LogStore& logs, std::string_view operation,
                                 const nlohmann::json& input, const LogPlace& place = {});

}  // namespace trainyard::control
