// SPDX-License-Identifier: Apache-2.0
// What a user or an administrator has said to pip about which packages come, and from where: by
// variables and in configuration files. Where only uv can install, it is told the same, so that a
// package never comes from an index that was not meant. Pure; installer.h decides who installs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "instance/launch/launch_plan.h"

namespace trainyard::instance {

// A configuration file of pip, as the variables that say the same (PIP_INDEX_URL, ...); [install]
// comes before [global].
Variables settings_of_pip_file(std::string_view text);

// Those of `files` and `environment` that say which packages come, and from where; the environment
// comes first, as with pip.
Variables package_settings(const Variables& environment, const Variables& files);

struct UvSettings {
  std::vector<std::string> arguments;
  Variables variables;               // addresses are here, where no list of processes shows them
  std::vector<std::string> unheard;  // names of pip's variables to which uv has no counterpart
};

UvSettings uv_settings(const Variables& pip);

}  // namespace trainyard::instance
