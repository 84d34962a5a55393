// SPDX-License-Identifier: Apache-2.0
// Looks for the sleepers that tests leave behind on purpose: whether any process of this machine
// still runs `sleep ARGUMENT`. Give each test an argument of its own.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

#include "base/file.h"

namespace trainyard::instance {

inline bool sleeps_somewhere(const std::string& argument) {
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", failed)) {
    const Result<std::string> line = read_file(entry.path() / "cmdline");
    if (line && line->find("sleep" + std::string(1, '\0') + argument) == 0) {
      return true;
    }
  }
  return false;
}

}  // namespace trainyard::instance
