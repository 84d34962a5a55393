// SPDX-License-Identifier: Apache-2.0
// The one rule about names and link targets in archives, used when reading and when writing.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace trainyard {

// "./a//b/" becomes "a/b", "./" becomes "". Empty optional: the name is absolute or has a "..".
std::optional<std::string> clean_member_name(std::string_view name);

// Whether a symbolic link called `member` that points to `target` stays inside the tree. Steps up
// come first and lead no higher than the top; no step up follows a name, for that name could itself
// be a link, and "up" from where it leads is elsewhere.
bool link_stays_inside(std::string_view member, std::string_view target);

}  // namespace trainyard
