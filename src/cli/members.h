// SPDX-License-Identifier: Apache-2.0
// Members of an answer, read without trust: what is absent or of another type is empty.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/clock.h"

namespace trainyard::cli {

std::string text_of(const nlohmann::json& object, std::string_view member);
std::optional<std::int64_t> number_of(const nlohmann::json& object, std::string_view member);
std::optional<bool> flag_of(const nlohmann::json& object, std::string_view member);
std::optional<WallTime> time_of(const nlohmann::json& object, std::string_view member);
// The list; an empty one when there is none.
const nlohmann::json& list_of(const nlohmann::json& object, std::string_view member);
// The object; an empty one when there is none.
const nlohmann::json& object_of(const nlohmann::json& object, std::string_view member);

}  // namespace trainyard::cli
