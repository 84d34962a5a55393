// SPDX-License-Identifier: Apache-2.0
#include "formats/archive_path.h"

#include <algorithm>

#include "base/text.h"

namespace trainyard {

std::optional<std::string> clean_member_name(std::string_view name) {
  if (name.starts_with('/')) {
    return std::nullopt;
  }
  std::string clean;
  for (const std::string_view part : split(name, '/')) {
    if (part == "..") {
      return std::nullopt;
    }
    if (!part.empty() && part != ".") {
      clean += clean.empty() ? "" : "/";
      clean += part;
    }
  }
  return clean;
}

bool link_stays_inside(std::string_view member, std::string_view target) {
  if (target.empty() || target.starts_with('/')) {
    return false;
  }
  auto levels_up = std::count(member.begin(), member.end(), '/');
  bool went_down = false;
  for (const std::string_view part : split(target, '/')) {
    if (part == "..") {
      if (went_down || levels_up-- == 0) {
        return false;
      }
    } else if (!part.empty() && part != ".") {
      went_down = true;
    }
  }
  return true;
}

}  // namespace trainyard
