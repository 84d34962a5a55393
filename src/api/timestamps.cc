// SPDX-License-Identifier: Apache-2.0
#include "api/timestamps.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "formats/json.h"

namespace trainyard::api {
namespace {

// Year 9999, the last that ISO 8601 text can show.
constexpr double kMaxSeconds = 253'402'300'799.0;

Error not_a_time(const nlohmann::json& value) {
  return {.code = Code::kInvalidArgument,
          .message = "'" + dump_json(value).substr(0, 64) + "' is not a timestamp"};
}

}  // namespace

nlohmann::json to_timestamp(WallTime time) {
  return to_epoch_seconds(time);
}

Result<WallTime> from_timestamp(const nlohmann::json& value) {
  if (!value.is_number()) {
    return not_a_time(value);
  }
  const auto seconds = value.get<double>();
  if (!std::isfinite(seconds) || std::fabs(seconds) > kMaxSeconds) {
    return not_a_time(value);
  }
  return from_epoch_seconds(seconds);
}

nlohmann::json to_milliseconds(WallTime time) {
  return time.time_since_epoch().count();
}

Result<WallTime> from_milliseconds(const nlohmann::json& value) {
  // Checked as a double first: an unsigned value beyond 63 bits would wrap.
  if (!value.is_number_integer() || std::fabs(value.get<double>()) > kMaxSeconds * 1000.0) {
    return not_a_time(value);
  }
  return WallTime(std::chrono::milliseconds(value.get<std::int64_t>()));
}

}  // namespace trainyard::api
