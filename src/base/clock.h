// SPDX-License-Identifier: Apache-2.0
// Time, passed in: whoever needs the time of day or a deadline takes a Clock, so that tests and the
// simulation run on virtual time. Wall time is for people and protocols, steady time for time-outs.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/result.h"

namespace trainyard {

using WallTime = std::chrono::sys_time<std::chrono::milliseconds>;
using SteadyTime = std::chrono::steady_clock::time_point;
using Duration = std::chrono::milliseconds;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual WallTime now() const = 0;
  virtual SteadyTime steady_now() const = 0;
};

class SystemClock final : public Clock {
 public:
  WallTime now() const override;
  SteadyTime steady_now() const override;
};

// Seconds since 1970 with milliseconds as the fraction: the wire form of AWS timestamps.
double to_epoch_seconds(WallTime time);
WallTime from_epoch_seconds(double seconds);

// "2026-11-29T20:12:05.123Z", "20261129T201205Z" (SigV4), "Sun, 29 Nov 2026 20:12:05 GMT" (HTTP).
std::string to_iso8601(WallTime time);
std::string to_basic_iso8601(WallTime time);
std::string to_http_date(WallTime time);
Result<WallTime> parse_iso8601(std::string_view text);  // with or without fraction, Z or +hh:mm
Result<WallTime> parse_basic_iso8601(std::string_view text);  // "20261129T201205Z" only
Result<WallTime> parse_http_date(std::string_view text);

}  // namespace trainyard
