// SPDX-License-Identifier: Apache-2.0
// What is wrong with a request, collected by the walker (validate.cc) and the rules (rules.cc), and
// the one sentence that reports all of it. Values are cut, and the sentence is capped, so that a
// large bad request cannot make a large answer.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"

namespace trainyard::api {

struct Violations {
  std::vector<std::string> types;        // wrong JSON types
  std::vector<std::string> constraints;  // everything else

  bool empty() const { return types.empty() && constraints.empty(); }
};

// "Value 'x' at 'a.b' failed to satisfy constraint: <constraint>". Without a shown value: "Value
// at".
std::string violation(std::optional<std::string_view> shown, std::string_view path,
                      std::string_view constraint);
// "Value null at 'a.b' failed to satisfy constraint: Member must not be null".
std::string missing(std::string_view path);

// The value as a client is shown it: at most 100 characters of a string, the number of entries of a
// list or map (whose content may be secret).
std::string shown_value(const nlohmann::json& value);

// "TrainingJobName" -> "trainingJobName", as the service writes paths.
std::string camel_case(std::string_view member);

// Requires that `violations` is not empty.
Error to_error(const Violations& violations);

}  // namespace trainyard::api
