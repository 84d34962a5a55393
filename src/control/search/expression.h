// SPDX-License-Identifier: Apache-2.0
// A search expression as a value, read from a validated request, and whether a job matches it.
// Pure.
//
// A property may have several values (an element of a list each): a filter holds when one of them
// fits, NotEquals when none is equal, which is also so when there is no value at all. Text is
// compared as it is. A hyperparameter is compared as a number when both sides are numbers, cut to
// an integer when the filter's value is one, as the service does.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "control/search/property.h"

namespace trainyard::control {

struct Filter {
  enum class Operator {
    kEquals,
    kNotEquals,
    kGreaterThan,
    kGreaterThanOrEqualTo,
    kLessThan,
    kLessThanOrEqualTo,
    kContains,
    kExists,
    kNotExists,
    kIn,
  };

  Property property;
  Operator how = Operator::kEquals;
  std::string value = {};
  double number = 0;  // the value of a filter on numbers and times
};

struct SearchExpression {
  // All of whose filters one element of a list must fit.
  struct Nested {
    Property list;
    std::vector<Filter> filters;
  };

  bool is_or = false;
  std::vector<Filter> filters = {};
  std::vector<Nested> nested = {};
  std::vector<SearchExpression> parts = {};
};

// "SearchExpression" of a request; one without it matches everything. kInvalidArgument names the
// filter that cannot be: an unknown property, an operator that its type does not have, a value
// that is no number or time.
Result<SearchExpression> search_expression(const nlohmann::json& input);

bool matches(const SearchExpression& expression, const nlohmann::json& job);

}  // namespace trainyard::control
