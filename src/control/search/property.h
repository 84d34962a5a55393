// SPDX-License-Identifier: Apache-2.0
// Properties of a training job by name, as Search's filters and its order use them: a path of
// members as the model's TrainingJob has them ("ResourceConfig.InstanceType"), any key of a map
// ("HyperParameters.lr"), "Tags.<key>" and "Metrics.<name>". What a name means, and of which type
// its values are, is known before any job is looked at.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace trainyard::control {

struct Property {
  enum class Kind {
    kText,
    kNumber,
    kTime,  // seconds since 1970
    kBoolean,
    kLoose,  // text that may hold a number: hyperparameters
    kWhole,  // a structure, list or map: it can only exist or not
  };
  enum class Source { kMember, kTag, kMetric };

  std::string name;
  Kind kind = Kind::kText;
  Source source = Source::kMember;
  // Of a member the names on the way, of a tag or metric its key alone. Lists on the way take no
  // name: a property then has a value for each element.
  std::vector<std::string> path = {};
};

// kInvalidArgument for a name that no training job can have.
Result<Property> find_property(std::string_view name);

// The property below an element of the list `outer`, which must be a list and be where `inner`'s
// name begins: "InputDataConfig" and "InputDataConfig.ChannelName".
Result<Property> inside(const Property& outer, const Property& inner);
bool is_list(const Property& property);

// All values of the property in a job as Search shows it, perhaps none.
std::vector<const nlohmann::json*> values_of(const nlohmann::json& job, const Property& property);

}  // namespace trainyard::control
