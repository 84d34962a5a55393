// SPDX-License-Identifier: Apache-2.0
#include "control/search/expression.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/text.h"
#include "control/operations/requests.h"

namespace trainyard::control {
namespace {

using nlohmann::json;
using Operator = Filter::Operator;
using Kind = Property::Kind;

constexpr std::size_t kMostConditions = 200;  // of a whole expression

constexpr std::array<std::pair<std::string_view, Operator>, 10> kOperators = {
    {{"Equals", Operator::kEquals},
     {"NotEquals", Operator::kNotEquals},
     {"GreaterThan", Operator::kGreaterThan},
     {"GreaterThanOrEqualTo", Operator::kGreaterThanOrEqualTo},
     {"LessThan", Operator::kLessThan},
     {"LessThanOrEqualTo", Operator::kLessThanOrEqualTo},
     {"Contains", Operator::kContains},
     {"Exists", Operator::kExists},
     {"NotExists", Operator::kNotExists},
     {"In", Operator::kIn}}};

Error wrong(std::string message) {
  return {.code = Code::kInvalidArgument, .message = std::move(message)};
}

bool asks_for_existence(Operator how) {
  return how == Operator::kExists || how == Operator::kNotExists;
}
bool asks_for_order(Operator how) {
  return how >= Operator::kGreaterThan && how <= Operator::kLessThanOrEqualTo;
}
bool asks_for_text(Operator how) {
  return how == Operator::kContains || how == Operator::kIn;
}

bool has_operator(Kind kind, Operator how) {
  switch (kind) {
    case Kind::kText:
      return !asks_for_order(how);
    case Kind::kNumber:
    case Kind::kTime:
      return !asks_for_text(how);
    case Kind::kBoolean:
      return !asks_for_text(how) && !asks_for_order(how);
    case Kind::kLoose:
      return true;
    case Kind::kWhole:
      return asks_for_existence(how);
  }
  return false;
}

// "2026-11-30T06:00:00", which has no zone and means UTC, or any other ISO 8601 time.
std::optional<double> seconds_in(const std::string& text) {
  Result<WallTime> time = parse_iso8601(text);
  if (!time) {
    time = parse_iso8601(text + "Z");
  }
  if (!time) {
    return std::nullopt;
  }
  return static_cast<double>(time->time_since_epoch().count()) / 1000;
}

Result<void> read_value(std::string_view operator_name, Filter& filter) {
  const std::string& name = filter.property.name;
  if (!has_operator(filter.property.kind, filter.how)) {
    return wrong(
        fmt::format("The operator {} is not supported for the property '{}'", operator_name, name));
  }
  if (asks_for_existence(filter.how)) {
    return {};
  }
  if (filter.value.empty()) {
    return wrong(fmt::format("The filter on '{}' needs a Value", name));
  }
  std::optional<double> number = 0.0;
  if (filter.property.kind == Kind::kNumber) {
    const Result<double> parsed = parse_double(filter.value);
    number = parsed ? std::optional(*parsed) : std::nullopt;
  } else if (filter.property.kind == Kind::kTime) {
    number = seconds_in(filter.value);
  }
  if (!number) {
    return wrong(fmt::format(
        "The Value '{}' of the filter on '{}' is not {}", filter.value, name,
        filter.property.kind == Kind::kTime ? "a time such as 2026-11-30T06:00:00" : "a number"));
  }
  filter.number = *number;
  return {};
}

Result<Filter> filter_of(const json& item) {
  Filter filter;
  YARD_TRY(filter.property, find_property(text_in(item, {"Name"})));
  filter.value = text_in(item, {"Value"});
  std::string name = text_in(item, {"Operator"});
  name = name.empty() ? "Equals" : name;
  for (const auto& [known, how] : kOperators) {
    filter.how = known == name ? how : filter.how;
  }
  YARD_TRY(read_value(name, filter));
  return filter;
}

const json& list_in(const json& value, const char* name) {
  static const json kNone = json::array();
  const auto found = value.find(name);
  return found == value.end() || found->is_null() ? kNone : *found;
}

Result<SearchExpression::Nested> nested_of(const json& item) {
  SearchExpression::Nested nested;
  YARD_TRY(nested.list, find_property(text_in(item, {"NestedPropertyName"})));
  for (const json& inner : list_in(item, "Filters")) {
    YARD_TRY(Filter filter, filter_of(inner));
    YARD_TRY(filter.property, inside(nested.list, filter.property));
    nested.filters.push_back(std::move(filter));
  }
  return nested;
}

Result<SearchExpression> expression_of(const json& value, std::size_t& conditions) {
  SearchExpression out{.is_or = text_in(value, {"Operator"}) == "Or"};
  for (const json& item : list_in(value, "Filters")) {
    YARD_TRY(Filter filter, filter_of(item));
    out.filters.push_back(std::move(filter));
  }
  for (const json& item : list_in(value, "NestedFilters")) {
    YARD_TRY(SearchExpression::Nested nested, nested_of(item));
    conditions += nested.filters.size();
    out.nested.push_back(std::move(nested));
  }
  conditions += out.filters.size();
  for (const json& item : list_in(value, "SubExpressions")) {
    if (++conditions > kMostConditions) {
      break;
    }
    YARD_TRY(SearchExpression part, expression_of(item, conditions));
    out.parts.push_back(std::move(part));
  }
  if (conditions > kMostConditions) {
    return wrong(fmt::format("The SearchExpression has more than {} conditions", kMostConditions));
  }
  return out;
}

// --- Matching ---

bool compare(double left, Operator how, double right) {
  switch (how) {
    case Operator::kGreaterThan:
      return left > right;
    case Operator::kGreaterThanOrEqualTo:
      return left >= right;
    case Operator::kLessThan:
      return left < right;
    case Operator::kLessThanOrEqualTo:
      return left <= right;
    default:
      return left == right;
  }
}

bool fits_text(const std::string& text, const Filter& filter) {
  switch (filter.how) {
    case Operator::kContains:
      return text.find(filter.value) != std::string::npos;
    case Operator::kIn:
      return std::ranges::any_of(split(filter.value, ','),
                                 [&](std::string_view one) { return trim(one) == text; });
    default:
      return !asks_for_order(filter.how) && text == filter.value;
  }
}

bool fits_loose(const std::string& text, const Filter& filter) {
  const Result<double> ours = parse_double(text);
  const Result<double> theirs = parse_double(filter.value);
  if (!ours || !theirs || asks_for_text(filter.how)) {
    return fits_text(text, filter);
  }
  const bool as_integer = parse_int(filter.value).has_value();
  return compare(as_integer ? std::trunc(*ours) : *ours, filter.how, *theirs);
}

bool fits(const json& value, const Filter& filter) {
  switch (filter.property.kind) {
    case Kind::kNumber:
    case Kind::kTime:
      return value.is_number() && compare(value.get<double>(), filter.how, filter.number);
    case Kind::kBoolean:
      return value.is_boolean() && (value.get<bool>() ? "true" : "false") == lower(filter.value);
    case Kind::kLoose:
      return value.is_string() && fits_loose(value.get_ref<const std::string&>(), filter);
    case Kind::kText:
      return value.is_string() && fits_text(value.get_ref<const std::string&>(), filter);
    case Kind::kWhole:
      break;
  }
  return false;
}

bool matches(const Filter& filter, const json& job) {
  const std::vector<const json*> values = values_of(job, filter.property);
  if (asks_for_existence(filter.how)) {
    return values.empty() == (filter.how == Operator::kNotExists);
  }
  const bool any =
      std::ranges::any_of(values, [&](const json* value) { return fits(*value, filter); });
  return any != (filter.how == Operator::kNotEquals);
}

bool matches(const SearchExpression::Nested& nested, const json& job) {
  for (const json* list : values_of(job, nested.list)) {
    const bool found = std::ranges::any_of(*list, [&](const json& element) {
      return std::ranges::all_of(nested.filters,
                                 [&](const Filter& filter) { return matches(filter, element); });
    });
    if (found) {
      return true;
    }
  }
  return false;
}

}  // namespace

Result<SearchExpression> search_expression(const json& input) {
  const auto found = input.find("SearchExpression");
  if (found == input.end() || found->is_null()) {
    return SearchExpression();
  }
  std::size_t conditions = 0;
  return expression_of(*found, conditions);
}

bool matches(const SearchExpression& expression, const json& job) {
  const auto holds = [&](const auto& condition) { return matches(condition, job); };
  if (expression.is_or) {
    return std::ranges::any_of(expression.filters, holds) ||
           std::ranges::any_of(expression.nested, holds) ||
           std::ranges::any_of(expression.parts, holds);
  }
  return std::ranges::all_of(expression.filters, holds) &&
         std::ranges::all_of(expression.nested, holds) &&
         std::ranges::all_of(expression.parts, holds);
}

}  // namespace trainyard::control
