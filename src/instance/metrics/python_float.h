// SPDX-License-Identifier: Apache-2.0
// The number that a text means to Python's float(): surrounding white space, underscores between
// digits, "nan", "inf" and "infinity" in any case and with a sign, 1e999 for infinity. Digits are
// ASCII: of other scripts' digits, which float() also takes, nothing is known here.
#pragma once

#include <optional>
#include <string_view>

namespace trainyard::instance {

std::optional<double> python_float(std::string_view text);

}  // namespace trainyard::instance
