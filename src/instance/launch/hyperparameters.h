// SPDX-License-Identifier: Apache-2.0
// Hyperparameters as a script sees them: decoded from the request's strings, then as command-line
// arguments and environment texts, byte for byte. Follows the SageMaker training toolkit
// (aws/sagemaker-training-toolkit, mapping.py and environment.py), with one improvement: a number
// keeps its spelling, so that 0.10, 1e-4 and thirty-digit integers arrive as they were sent.
// Nothing here is ever shown to a shell.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace trainyard::instance {

struct Hyperparameter {
  std::string key;
  std::string raw;       // as in the request
  nlohmann::json value;  // raw as JSON, or raw itself as a string where it is not JSON
};

// In the order of their keys.
using Hyperparameters = std::vector<Hyperparameter>;

Hyperparameters decode_hyperparameters(const std::map<std::string, std::string>& request);

// "sagemaker_*" speaks to the platform; the script does not see it.
bool is_for_platform(std::string_view key);
Hyperparameters users(const Hyperparameters& all);
Hyperparameters platforms(const Hyperparameters& all);

// The value of a key, or nullptr.
const nlohmann::json* find_value(const Hyperparameters& all, std::string_view key);
// A string, or the JSON text of anything else; empty when the key is absent.
std::string find_text(const Hyperparameters& all, std::string_view key);
// true, "true" and "True" are true.
bool find_flag(const Hyperparameters& all, std::string_view key);

// "--key", "value", ...: "-k" for one-letter keys, only the flag for an empty value. Strings stand
// as they are; other values as Python prints them (True, [1, 'a'], objects as k=v,k=v), because
// that is what scripts written for SageMaker parse.
std::vector<std::string> command_line(const Hyperparameters& parameters);

// For SM_HP_*: strings as they are, null as nothing, others as JSON.
std::string environment_text(const Hyperparameter& parameter);

// One JSON object that keeps the types; ASCII only, so that any locale can read it.
std::string as_json_object(const Hyperparameters& parameters);

}  // namespace trainyard::instance
