// SPDX-License-Identifier: Apache-2.0
// What somebody probably meant who wrote a name that is not there.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace trainyard::cli {

// The name that takes the fewest changed, added or left out characters, upper and lower case being
// one; empty when about half of it would have to change: that is another word.
std::string_view nearest_name(std::string_view written, std::span<const std::string_view> names);

// "; did you mean 'logs'?", or nothing.
std::string did_you_mean(std::string_view written, std::span<const std::string_view> names);

}  // namespace trainyard::cli
