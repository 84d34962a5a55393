// SPDX-License-Identifier: Apache-2.0
// Times as the AWS JSON protocol writes them: a number of seconds since 1970, with milliseconds as
// the fraction. CloudWatch Logs counts whole milliseconds instead.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/clock.h"
#include "base/result.h"

namespace trainyard::api {

nlohmann::json to_timestamp(WallTime time);
// Integer or fractional seconds; kInvalidArgument for what no clock can show.
Result<WallTime> from_timestamp(const nlohmann::json& value);

nlohmann::json to_milliseconds(WallTime time);
Result<WallTime> from_milliseconds(const nlohmann::json& value);

}  // namespace trainyard::api
