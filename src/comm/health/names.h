// SPDX-License-Identifier: Apache-2.0
// Names of communicators, which users choose, as parts of names of files.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace trainyard::comm {

inline std::string as_file_name(std::string_view name) {
  std::string text(name);
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return c == '/' || c == '\0' || static_cast<unsigned char>(c) < ' '; }, '_');
  return text;
}

}  // namespace trainyard::comm
