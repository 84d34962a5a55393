// SPDX-License-Identifier: Apache-2.0
// Where Trainyard keeps its state on this machine: the server puts it there, its clients look for
// the server and its keys there.
#pragma once

#include <functional>
#include <string>

#include "base/file.h"

namespace trainyard {

// Value of an environment variable; empty when it is not set.
using Environment = std::function<std::string(const char* name)>;
std::string environment_variable(const char* name);  // of this process

// $TRAINYARD_HOME, else /var/lib/trainyard as root, else the XDG data directory.
Path home_directory(const Environment& environment, bool is_root);
Path own_home();  // of this process

}  // namespace trainyard
