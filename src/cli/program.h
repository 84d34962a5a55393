// SPDX-License-Identifier: Apache-2.0
// All verbs of the program, for its help and for who mistypes one. The parts of Trainyard that
// perform them lie elsewhere: apps/trainyard/main.cc brings the two together.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::cli {

struct ProgramVerb {
  std::string_view name;
  std::string_view usage;    // what may stand behind the name
  std::string_view purpose;  // a sentence without its full stop
};

std::span<const ProgramVerb> program_verbs();
std::vector<std::string_view> verb_names();
std::string_view purpose_of(std::string_view verb);  // of one in the table
std::string program_help();

}  // namespace trainyard::cli
