// SPDX-License-Identifier: Apache-2.0
// The last step of what appears whole or not at all.
#pragma once

#include "base/file.h"
#include "base/result.h"

namespace trainyard::server {

// Renames a file or a directory. kAlreadyExists when `to` is there: nothing is replaced, also when
// it has come a moment ago.
Result<void> rename_to_new(const Path& from, const Path& to);

}  // namespace trainyard::server
