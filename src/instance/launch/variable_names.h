// SPDX-License-Identifier: Apache-2.0
// The names under which keys that a user chose (hyperparameters, channels) become variables. Pure.
//
//   exact name   the prefix and the key in upper case, as the training toolkit writes it:
//   SM_HP_A.B.
//                Of keys that differ in case only the last in byte order has it (lr before LR).
//   plain name   where a shell could not read that: the same with '_' for all but letters and
//                digits (SM_HP_A_B). It yields to another key's exact name, and where two keys
//                would share it there is none: no value is better than the wrong one.
//
// A key that holds '=' has its plain name only, since a variable's name ends at the '='; an empty
// key has none. Whatever is shared, lost or misread is told in the notes, for the job's log.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "instance/launch/environment.h"

namespace trainyard::instance {

struct NamedVariables {
  Variables variables;
  std::vector<std::string> notes;
};

// `kind` is a word for the notes: "hyperparameter".
NamedVariables name_variables(std::string_view prefix, std::string_view kind,
                              const Variables& values);

}  // namespace trainyard::instance
