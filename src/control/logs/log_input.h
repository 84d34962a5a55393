// SPDX-License-Identifier: Apache-2.0
// Typed access to the members of a Logs request, shared by log_operations.cc and log_filter.cc. A
// member that is absent or null gives nothing; a wrong type is kInvalidArgument, "serialization".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "control/logs/log_store.h"

namespace trainyard::control {

// What CloudWatch puts into one page of events.
inline constexpr std::size_t kMaxPageEvents = 10'000;
inline constexpr std::size_t kMaxPageBytes = std::size_t{1} << 20;

class LogInput {
 public:
  explicit LogInput(const nlohmann::json& json) : json_(json) {}

  Result<std::optional<std::string>> text(std::string_view name) const;
  Result<std::optional<std::int64_t>> integer(std::string_view name) const;
  Result<std::optional<WallTime>> time(std::string_view name) const;
  Result<bool> flag(std::string_view name) const;  // false when absent
  Result<std::vector<std::string>> texts(std::string_view name) const;
  // A page size between 1 and `most`, which is also the default.
  Result<std::size_t> limit(std::size_t most) const;
  // logGroupName, or logGroupIdentifier as a name or an ARN.
  Result<std::string> group() const;

 private:
  const nlohmann::json* find(std::string_view name) const;

  const nlohmann::json& json_;
};

Error bad_parameter(std::string message);
std::int64_t to_millis(WallTime time);

}  // namespace trainyard::control
