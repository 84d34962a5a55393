// SPDX-License-Identifier: Apache-2.0
// Floating-point numbers as the AWS JSON protocols write them: a JSON number, or the strings "NaN",
// "Infinity" and "-Infinity", for which JSON has none.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace trainyard::api {

nlohmann::json to_float(double value);
// Whether `value` can stand where a floating-point number belongs.
bool is_float(const nlohmann::json& value);

}  // namespace trainyard::api
