// SPDX-License-Identifier: Apache-2.0
// Looks at this machine for what diagnose.h judges. Changes nothing: the one file that it writes,
// to time the disk, has no name and goes with it. A probe that would change a process runs in
// another one, with a deadline.
#pragma once

#include <string>

#include "base/file.h"
#include "doctor/facts.h"

namespace trainyard::doctor {

struct Subject {
  std::string instance_type;  // empty: not said
  Path home;                  // of the server's state
  Path program;               // our own, for `instance-probe`
};

Facts gather(const Subject& subject);

// Its parts that read text, apart for tests.
std::string chosen_of(const std::string& text);  // "always [madvise] never" -> "madvise"
std::vector<std::string> modules_of(const std::string& text);  // of /proc/modules

}  // namespace trainyard::doctor
