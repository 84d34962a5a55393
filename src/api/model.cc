// SPDX-License-Identifier: Apache-2.0
#include "api/model.h"

#include <algorithm>

namespace trainyard::api {

const Operation* find_operation(std::string_view service, std::string_view name) {
  const auto all = operations();
  const auto found = std::ranges::find_if(all, [&](const Operation& operation) {
    return operation.service == service && operation.name == name;
  });
  return found == all.end() ? nullptr : &*found;
}

const Operation* find_operation_by_target(std::string_view target) {
  const std::size_t dot = target.find('.');
  if (dot == std::string_view::npos || dot == 0) {
    return nullptr;
  }
  const auto all = services();
  const auto found = std::ranges::find(all, target.substr(0, dot), &Service::target_prefix);
  return found == all.end() ? nullptr : find_operation(found->name, target.substr(dot + 1));
}

}  // namespace trainyard::api
