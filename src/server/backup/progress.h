// SPDX-License-Identifier: Apache-2.0
// How those who copy or check a home tell how far they are, and are told to stop.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"

namespace trainyard::server {

// `what` is for people: "objects", "logs", "check", ...; `total` is 0 when nobody knows. An error
// ends the work, which leaves nothing behind and gives that error.
using CopyProgress =
    std::function<Result<void>(const std::string& what, std::uint64_t done, std::uint64_t total)>;

}  // namespace trainyard::server
