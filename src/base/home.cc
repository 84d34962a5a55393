// SPDX-License-Identifier: Apache-2.0
#include "base/home.h"

#include <cstdlib>

#include <unistd.h>

namespace trainyard {

std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

Path home_directory(const Environment& environment, bool is_root) {
  if (const std::string home = environment("TRAINYARD_HOME"); !home.empty()) {
    return home;
  }
  if (is_root) {
    return "/var/lib/trainyard";
  }
  const std::string data = environment("XDG_DATA_HOME");
  return (data.empty() ? Path(environment("HOME")) / ".local/share" : Path(data)) / "trainyard";
}

Path own_home() {
  return home_directory(environment_variable, ::geteuid() == 0);
}

}  // namespace trainyard
