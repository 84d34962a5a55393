// SPDX-License-Identifier: Apache-2.0
#include "api/floats.h"

#include <cmath>

#include <nlohmann/json.hpp>

namespace trainyard::api {

using nlohmann::json;

json to_float(double value) {
  if (std::isfinite(value)) {
    return value;
  }
  return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

bool is_float(const json& value) {
  return value.is_number() || value == "NaN" || value == "Infinity" || value == "-Infinity";
}

}  // namespace trainyard::api
