// SPDX-License-Identifier: Apache-2.0
// Entry of `trainyard doctor [--json] [--instance-type TYPE] [--home DIR]`: says what on this
// machine is in the way of training, and what to do about it.
#pragma once

#include <string>
#include <vector>

namespace trainyard::doctor {

// `args` without the verb. 0: nothing is bad; 1: something is; 2: wrong usage.
int doctor_main(const std::vector<std::string>& args);

}  // namespace trainyard::doctor
