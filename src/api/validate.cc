// SPDX-License-Identifier: Apache-2.0
#include "api/validate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include <nlohmann/json.hpp>

#include "api/floats.h"
#include "api/model.h"
#include "api/pattern.h"
#include "api/rules.h"
#include "api/violations.h"
#include "base/encoding.h"
#include "base/text.h"

namespace trainyard::api {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxUnknown = 20;
// A value this far above any limit has its length reported and its pattern left alone.
constexpr std::size_t kMaxMatchedBytes = 65'536;
constexpr std::size_t kMaxEnumBytes = 600;

const Shape& shape_at(ShapeIndex index) {
  return shapes()[index];
}

std::string below(const std::string& path, std::string_view member) {
  return path.empty() ? camel_case(member) : path + "." + camel_case(member);
}

std::string element(const std::string& path, std::size_t index) {
  return path + "." + std::to_string(index + 1) + ".member";
}

std::string_view json_kind(const Json& value) {
  switch (value.type()) {
    case Json::value_t::boolean:
      return value.get<bool>() ? "TRUE_VALUE" : "FALSE_VALUE";
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return "NUMBER_VALUE";
    case Json::value_t::number_float:
      return "DECIMAL_VALUE";
    case Json::value_t::string:
      return "STRING_VALUE";
    case Json::value_t::array:
      return "START_ARRAY";
    default:
      return "START_OBJECT";
  }
}

std::string_view wanted_kind(ShapeKind kind) {
  switch (kind) {
    case ShapeKind::kBoolean:
      return "Boolean";
    case ShapeKind::kFloat:
      return "Float";
    case ShapeKind::kInteger:
      return "Integer";
    case ShapeKind::kLong:
      return "Long";
    case ShapeKind::kList:
      return "List";
    case ShapeKind::kMap:
      return "Map";
    case ShapeKind::kString:
      return "String";
    case ShapeKind::kStructure:
      return "Structure";
    case ShapeKind::kTimestamp:
      return "Timestamp";
  }
  return "Unknown";
}

bool is_beyond_64_bits(const Json& value) {
  constexpr double kTwoTo63 = 9'223'372'036'854'775'808.0;
  return value.is_number_float() && std::abs(value.get<double>()) >= kTwoTo63;
}

bool fits(const Json& value, ShapeKind kind) {
  switch (kind) {
    case ShapeKind::kBoolean:
      return value.is_boolean();
    case ShapeKind::kFloat:
      return is_float(value);
    case ShapeKind::kTimestamp:
      return value.is_number();
    case ShapeKind::kInteger:
    case ShapeKind::kLong:
      return value.is_number_integer() || is_beyond_64_bits(value);
    case ShapeKind::kList:
      return value.is_array();
    case ShapeKind::kMap:
    case ShapeKind::kStructure:
      return value.is_object();
    case ShapeKind::kString:
      return value.is_string();
  }
  return false;
}

// Integers of the wire that do not fit what their shape can hold. Those beyond 64 bits have become
// floating-point numbers in the JSON library, and have no fraction at that size.
bool overflows(const Json& value, ShapeKind kind) {
  if (value.is_number_float()) {
    return true;
  }
  constexpr auto kMaxLong = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > kMaxLong) {
    return true;
  }
  const auto number = value.get<std::int64_t>();
  return kind == ShapeKind::kInteger && (number < std::numeric_limits<std::int32_t>::min() ||
                                         number > std::numeric_limits<std::int32_t>::max());
}

// "ml.p5.48xlarge": every type name is accepted and mapped to what the machines have, so that a
// type that is newer than the pinned model still runs.
bool is_instance_type(const Shape& shape, std::string_view value) {
  static const Result<Pattern> kForm = Pattern::compile_whole("ml\\.[a-z0-9-]+\\.[a-z0-9]+");
  return shape.name.ends_with("InstanceType") && value.size() <= 64 && kForm.has_value() &&
         kForm->matches(value);
}

std::string enum_constraint(const Shape& shape) {
  std::string text = "Member must satisfy enum value set: [";
  for (std::size_t i = 0; i < shape.enumeration.size(); ++i) {
    if (text.size() > kMaxEnumBytes) {
      text += ", ...";
      break;
    }
    text.append(i == 0 ? "" : ", ").append(shape.enumeration[i]);
  }
  return text + "]";
}

std::vector<std::string> bound_constraints(const Shape& shape, std::int64_t size,
                                           std::string_view what) {
  std::vector<std::string> broken;
  const std::string start = "Member must have " + std::string(what);
  if (shape.max.has_value() && size > *shape.max) {
    broken.push_back(start + " less than or equal to " + std::to_string(*shape.max));
  }
  if (shape.min.has_value() && size < *shape.min) {
    broken.push_back(start + " greater than or equal to " + std::to_string(*shape.min));
  }
  return broken;
}

// Lengths are counted in characters and come before the pattern.
std::vector<std::string> string_constraints(const Shape& shape, const std::string& value) {
  const auto characters = static_cast<std::int64_t>(utf8_length(value));
  std::vector<std::string> broken = bound_constraints(shape, characters, "length");
  if (!shape.enumeration.empty() &&
      std::ranges::find(shape.enumeration, value) == shape.enumeration.end() &&
      !is_instance_type(shape, value)) {
    broken.push_back(enum_constraint(shape));
  }
  const bool worth_matching = broken.empty() || value.size() <= kMaxMatchedBytes;
  if (worth_matching && !matches_pattern(shape, value)) {
    broken.push_back("Member must satisfy regular expression pattern: " +
                     std::string(shape.pattern));
  }
  return broken;
}

// One pass over a value and its shape; paths are built on the way down.
class Walker {
 public:
  void walk(const Shape& shape, const Json& value, const std::string& path) {
    if (!fits(value, shape.kind)) {
      report_type(shape, value, path);
      return;
    }
    switch (shape.kind) {
      case ShapeKind::kStructure:
        walk_structure(shape, value, path);
        break;
      case ShapeKind::kList:
        walk_list(shape, value, path);
        break;
      case ShapeKind::kMap:
        walk_map(shape, value, path);
        break;
      case ShapeKind::kString:
        report(shape, value, path, string_constraints(shape, value.get_ref<const std::string&>()));
        break;
      case ShapeKind::kInteger:
      case ShapeKind::kLong:
        walk_integer(shape, value, path);
        break;
      case ShapeKind::kBoolean:
      case ShapeKind::kFloat:
      case ShapeKind::kTimestamp:
        break;
    }
  }

  Violations take() && { return std::move(found_); }

 private:
  void report_type(const Shape& shape, const Json& value, const std::string& path) {
    found_.types.push_back(std::string(json_kind(value)) + " can not be converted to a " +
                           std::string(wanted_kind(shape.kind)) + " at '" + path + "'");
  }

  void report(const Shape& shape, const Json& value, const std::string& path,
              const std::vector<std::string>& constraints) {
    for (const std::string& constraint : constraints) {
      const std::string shown = shape.sensitive ? "" : shown_value(value);
      found_.constraints.push_back(
          violation(shape.sensitive ? std::nullopt : std::optional<std::string_view>(shown), path,
                    constraint));
    }
  }

  void walk_integer(const Shape& shape, const Json& value, const std::string& path) {
    if (overflows(value, shape.kind)) {
      found_.types.push_back("Numeric value (" + shown_value(value) + ") out of range of " +
                             std::string(wanted_kind(shape.kind)) + " at '" + path + "'");
      return;
    }
    report(shape, value, path, bound_constraints(shape, value.get<std::int64_t>(), "value"));
  }

  void walk_structure(const Shape& shape, const Json& value, const std::string& path) {
    std::size_t set = 0;
    for (const Member& member : shape.members) {
      const auto found = value.find(member.name);
      if (found != value.end() && !found->is_null()) {
        ++set;
        walk(shape_at(member.shape), *found, below(path, member.name));
      } else if (member.required) {
        found_.constraints.push_back(missing(below(path, member.name)));
      }
    }
    if (shape.is_union && set != 1) {
      found_.constraints.push_back(
          violation(shown_value(value), path, "Exactly one member of the union must be set"));
    }
  }

  // The content of a list that is too long is checked up to the limit only.
  void walk_list(const Shape& shape, const Json& value, const std::string& path) {
    report(shape, value, path,
           bound_constraints(shape, static_cast<std::int64_t>(value.size()), "length"));
    const auto limit =
        static_cast<std::size_t>(shape.max.value_or(static_cast<std::int64_t>(value.size())));
    for (std::size_t i = 0; i < std::min(value.size(), limit); ++i) {
      if (value[i].is_null()) {
        found_.constraints.push_back(missing(element(path, i)));
      } else {
        walk(shape_at(shape.item), value[i], element(path, i));
      }
    }
  }

  void walk_map(const Shape& shape, const Json& value, const std::string& path) {
    report(shape, value, path,
           bound_constraints(shape, static_cast<std::int64_t>(value.size()), "length"));
    std::int64_t left = shape.max.value_or(static_cast<std::int64_t>(value.size()));
    for (const auto& [key, content] : value.items()) {
      if (left-- <= 0) {
        break;
      }
      walk_key(shape_at(shape.key), key, path);
      const std::string place = path + "." + shown_value(Json(key));
      if (content.is_null()) {
        found_.constraints.push_back(missing(place));
      } else {
        walk(shape_at(shape.item), content, place);
      }
    }
  }

  void walk_key(const Shape& shape, const std::string& key, const std::string& path) {
    const std::vector<std::string> broken = string_constraints(shape, key);
    if (!broken.empty()) {
      found_.constraints.push_back(
          violation(shown_value(Json(key)), path,
                    "Map keys must satisfy constraint: [" + join(broken, ", ") + "]"));
    }
  }

  Violations found_;
};

void collect_unknown(const Shape& shape, const Json& value, const std::string& path,
                     std::vector<std::string>& unknown) {
  if (shape.kind == ShapeKind::kStructure && value.is_object()) {
    for (const auto& [key, content] : value.items()) {
      const auto member = std::ranges::find(shape.members, std::string_view(key), &Member::name);
      if (member != shape.members.end()) {
        collect_unknown(shape_at(member->shape), content, below(path, key), unknown);
      } else if (unknown.size() < kMaxUnknown) {
        unknown.push_back(below(path, shown_value(Json(key))));
      }
    }
  } else if (shape.kind == ShapeKind::kList && value.is_array()) {
    for (std::size_t i = 0; i < value.size() && unknown.size() < kMaxUnknown; ++i) {
      collect_unknown(shape_at(shape.item), value[i], element(path, i), unknown);
    }
  } else if (shape.kind == ShapeKind::kMap && value.is_object()) {
    for (const auto& [key, content] : value.items()) {
      std::string place = path;
      place.append(".").append(key);
      collect_unknown(shape_at(shape.item), content, place, unknown);
    }
  }
}

Error not_served(std::string_view service, std::string_view operation) {
  return {.code = Code::kUnimplemented,
          .message = "The operation " + std::string(operation) + " of " + std::string(service) +
                     " is not served by Trainyard",
          .subject = "operation"};
}

}  // namespace

Result<void> validate(std::string_view service, std::string_view operation, const Json& input) {
  const Operation* found = find_operation(service, operation);
  if (found == nullptr) {
    return not_served(service, operation);
  }
  Walker walker;
  if (found->input != kNoShape) {
    walker.walk(shape_at(found->input), input, "");
  }
  Violations violations = std::move(walker).take();
  for (std::string& message : broken_rules(*found, input)) {
    violations.constraints.push_back(std::move(message));
  }
  if (violations.empty()) {
    return {};
  }
  return to_error(violations);
}

std::vector<std::string> unknown_members(std::string_view service, std::string_view operation,
                                         const Json& input) {
  std::vector<std::string> unknown;
  const Operation* found = find_operation(service, operation);
  if (found != nullptr && found->input != kNoShape) {
    collect_unknown(shape_at(found->input), input, "", unknown);
  }
  return unknown;
}

Result<void> check_output(std::string_view service, std::string_view operation,
                          const Json& output) {
  const Operation* found = find_operation(service, operation);
  if (found == nullptr) {
    return not_served(service, operation);
  }
  if (found->output == kNoShape) {
    return {};
  }
  Walker walker;
  walker.walk(shape_at(found->output), output, "");
  const Violations violations = std::move(walker).take();
  if (violations.empty()) {
    return {};
  }
  Error error = to_error(violations);
  error.code = Code::kInternal;
  return error;
}

}  // namespace trainyard::api
