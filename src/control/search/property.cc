// SPDX-License-Identifier: Apache-2.0
#include "control/search/property.h"

#include <algorithm>

#include <fmt/format.h>

#include "api/model.h"
#include "base/check.h"
#include "base/text.h"

namespace trainyard::control {
namespace {

using api::Shape;
using api::ShapeKind;
using nlohmann::json;

constexpr std::string_view kTags = "Tags.";
constexpr std::string_view kMetrics = "Metrics.";

const Shape* member_of(const Shape& shape, std::string_view name) {
  const auto found = std::ranges::find(shape.members, name, &api::Member::name);
  return found == shape.members.end() ? nullptr : &api::shapes()[found->shape];
}

const Shape& item_of(const Shape& shape) {
  return api::shapes()[shape.item];
}

// SearchResponse.Results[].TrainingJob.
const Shape& job_shape() {
  const api::Operation* search = api::find_operation("sagemaker", "Search");
  const Shape* results = member_of(api::shapes()[search->output], "Results");
  const Shape* job = results == nullptr ? nullptr : member_of(item_of(*results), "TrainingJob");
  YARD_CHECK(job != nullptr, "the model of Search has no training job");
  return *job;
}

Property::Kind kind_of(const Shape& shape, bool in_map) {
  switch (shape.kind) {
    case ShapeKind::kBoolean:
      return Property::Kind::kBoolean;
    case ShapeKind::kFloat:
    case ShapeKind::kInteger:
    case ShapeKind::kLong:
      return Property::Kind::kNumber;
    case ShapeKind::kTimestamp:
      return Property::Kind::kTime;
    case ShapeKind::kString:
      return in_map ? Property::Kind::kLoose : Property::Kind::kText;
    case ShapeKind::kList:
    case ShapeKind::kMap:
    case ShapeKind::kStructure:
      break;
  }
  return Property::Kind::kWhole;
}

// Elements of lists have no names.
const Shape& without_lists(const Shape& shape) {
  const Shape* inner = &shape;
  while (inner->kind == ShapeKind::kList) {
    inner = &item_of(*inner);
  }
  return *inner;
}

Error unknown(std::string_view name) {
  return {
      .code = Code::kInvalidArgument,
      .message = fmt::format("Unknown property name: '{}' is no property of a training job", name)};
}

void collect(const json& value, const std::vector<std::string>& path, std::size_t at,
             std::vector<const json*>& out) {
  if (value.is_array() && at < path.size()) {
    for (const json& element : value) {
      collect(element, path, at, out);
    }
  } else if (at == path.size()) {
    if (!value.is_structured() || !value.empty()) {
      out.push_back(&value);
    }
  } else if (value.is_object()) {
    const auto found = value.find(path[at]);
    if (found != value.end() && !found->is_null()) {
      collect(*found, path, at + 1, out);
    }
  }
}

// Of a list of {name: key, value: ...} the values with this key.
std::vector<const json*> values_with_key(const json& job, const char* list,
                                         std::pair<const char*, const char*> members,
                                         const std::string& key) {
  std::vector<const json*> out;
  const auto found = job.find(list);
  if (found == job.end()) {
    return out;
  }
  for (const json& item : *found) {
    if (item.at(members.first) == key) {
      out.push_back(&item.at(members.second));
    }
  }
  return out;
}

}  // namespace

Result<Property> find_property(std::string_view name) {
  if (name.starts_with(kTags) && name.size() > kTags.size()) {
    return Property{.name = std::string(name),
                    .kind = Property::Kind::kText,
                    .source = Property::Source::kTag,
                    .path = {std::string(name.substr(kTags.size()))}};
  }
  if (name.starts_with(kMetrics) && name.size() > kMetrics.size()) {
    return Property{.name = std::string(name),
                    .kind = Property::Kind::kNumber,
                    .source = Property::Source::kMetric,
                    .path = {std::string(name.substr(kMetrics.size()))}};
  }
  Property property{.name = std::string(name)};
  const Shape* shape = &job_shape();
  bool in_map = false;
  std::string_view rest = name;
  while (!rest.empty()) {
    shape = &without_lists(*shape);
    // Keys of maps may hold dots.
    const std::size_t end =
        shape->kind == ShapeKind::kMap ? rest.size() : std::min(rest.find('.'), rest.size());
    in_map = shape->kind == ShapeKind::kMap;
    shape = in_map ? &item_of(*shape) : member_of(*shape, rest.substr(0, end));
    if (shape == nullptr) {
      return unknown(name);
    }
    property.path.emplace_back(rest.substr(0, end));
    if (end + 1 == rest.size()) {
      return unknown(name);  // a dot at the end
    }
    rest = rest.substr(std::min(end + 1, rest.size()));
  }
  if (property.path.empty()) {
    return unknown(name);
  }
  property.kind = kind_of(*shape, in_map);
  return property;
}

bool is_list(const Property& property) {
  const Shape* shape = &job_shape();
  for (const std::string& name : property.path) {
    shape = property.source == Property::Source::kMember ? member_of(without_lists(*shape), name)
                                                         : nullptr;
    if (shape == nullptr) {
      return false;
    }
  }
  return shape->kind == ShapeKind::kList;
}

Result<Property> inside(const Property& outer, const Property& inner) {
  if (!is_list(outer) || inner.source != Property::Source::kMember ||
      inner.path.size() <= outer.path.size() ||
      !std::equal(outer.path.begin(), outer.path.end(), inner.path.begin())) {
    return Error{.code = Code::kInvalidArgument,
                 .message = fmt::format("'{}' is no property of the elements of '{}'", inner.name,
                                        outer.name)};
  }
  Property below = inner;
  below.path.erase(below.path.begin(),
                   below.path.begin() + static_cast<std::ptrdiff_t>(outer.path.size()));
  return below;
}

std::vector<const json*> values_of(const json& job, const Property& property) {
  switch (property.source) {
    case Property::Source::kTag:
      return values_with_key(job, "Tags", {"Key", "Value"}, property.path.front());
    case Property::Source::kMetric:
      return values_with_key(job, "FinalMetricDataList", {"MetricName", "Value"},
                             property.path.front());
    case Property::Source::kMember:
      break;
  }
  std::vector<const json*> out;
  collect(job, property.path, 0, out);
  return out;
}

}  // namespace trainyard::control
