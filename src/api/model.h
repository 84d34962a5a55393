// SPDX-License-Identifier: Apache-2.0
// AWS's service model as constant tables: for each operation that is served, its input and output
// shapes with every constraint that AWS publishes. validate.h walks them; nothing else needs to
// know a member's limits. The data is src/api/model/aws_model.json (made by tools/gen_api.py) and,
// for the operations that AWS has not, own_model.json; tools/embed_model.py compiles both in. The
// models lack rules between members and defaults: see rules.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace trainyard::api {

enum class ShapeKind {
  kBoolean,
  kFloat,
  kInteger,  // 32 bits
  kLong,     // 64 bits
  kList,
  kMap,
  kString,
  kStructure,
  kTimestamp,  // seconds since 1970, with or without a fraction
};

using ShapeIndex = std::uint16_t;  // into shapes()
inline constexpr ShapeIndex kNoShape = 0xFFFF;

struct Member {
  std::string_view name;
  ShapeIndex shape;
  bool required;
};

struct Shape {
  std::string_view name;
  ShapeKind kind;
  // Of a number its range, of a string its characters, of a list or map its entries.
  std::optional<std::int64_t> min;
  std::optional<std::int64_t> max;
  std::string_view pattern;  // as AWS writes it: what clients are shown. Empty: none
  std::string_view pcre;     // the same for PCRE2: what is run
  std::span<const std::string_view> enumeration;
  std::span<const Member> members;  // of a structure, in AWS's order
  ShapeIndex key;                   // of a map
  ShapeIndex item;                  // of a list its elements, of a map its values
  bool sensitive;                   // never echoed
  bool is_union;                    // exactly one member is set
};

struct Operation {
  std::string_view service;  // "sagemaker", "logs", "sts", "trainyard"
  std::string_view name;
  ShapeIndex input;                          // kNoShape: takes nothing
  ShapeIndex output;                         // kNoShape: answers nothing
  std::span<const std::string_view> errors;  // those that SDKs turn into typed exceptions
};

struct Service {
  std::string_view name;
  std::string_view protocol;       // "json" or "query"
  std::string_view target_prefix;  // of X-Amz-Target, before the dot; empty for query services
  std::string_view api_version;    // "2011-06-15": the Version parameter of query services
};

std::span<const Shape> shapes();
std::span<const Operation> operations();
std::span<const Service> services();

// nullptr for what is not served. Names are case-sensitive, as AWS's are.
const Operation* find_operation(std::string_view service, std::string_view name);
// By X-Amz-Target, "SageMaker.CreateTrainingJob".
const Operation* find_operation_by_target(std::string_view target);

}  // namespace trainyard::api
