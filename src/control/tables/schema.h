// SPDX-License-Identifier: Apache-2.0
// The tables of trainyard.db as the list of scripts that made them; Database::open() applies those
// that a file lacks. A script that was released is never changed, only followed by another.
#pragma once

#include <span>
#include <string_view>

namespace trainyard::control {

std::span<const std::string_view> schema_migrations();

}  // namespace trainyard::control
