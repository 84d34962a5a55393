// SPDX-License-Identifier: Apache-2.0
#include "http/message.h"

#include <algorithm>

#include "base/encoding.h"
#include "base/text.h"

namespace trainyard::http {

void Headers::set(std::string_view name, std::string value) {
  const auto same = [&](const auto& field) { return equal_ignoring_case(field.first, name); };
  const auto first = std::find_if(fields_.begin(), fields_.end(), same);
  if (first == fields_.end()) {
    add(std::string(name), std::move(value));
    return;
  }
  first->second = std::move(value);
  fields_.erase(std::remove_if(first + 1, fields_.end(), same), fields_.end());
}

void Headers::remove(std::string_view name) {
  std::erase_if(fields_, [&](const auto& field) { return equal_ignoring_case(field.first, name); });
}

const std::string* Headers::find(std::string_view name) const {
  for (const auto& [key, value] : fields_) {
    if (equal_ignoring_case(key, name)) {
      return &value;
    }
  }
  return nullptr;
}

std::string_view Headers::get(std::string_view name, std::string_view otherwise) const {
  const std::string* value = find(name);
  return value == nullptr ? otherwise : std::string_view(*value);
}

Result<std::vector<std::pair<std::string, std::string>>> parse_query(std::string_view query) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string_view part : split(query, '&')) {
    if (part.empty()) {
      continue;
    }
    const std::size_t equals = part.find('=');
    YARD_TRY(std::string name, uri_decode(part.substr(0, equals)));
    const std::string_view rest =
        equals == std::string_view::npos ? std::string_view{} : part.substr(equals + 1);
    YARD_TRY(std::string value, uri_decode(rest));
    pairs.emplace_back(std::move(name), std::move(value));
  }
  return pairs;
}

}  // namespace trainyard::http
