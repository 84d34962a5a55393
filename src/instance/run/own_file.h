// SPDX-License-Identifier: Apache-2.0
// Opens files of ours among those of a job's program, which may have left anything in their places:
// no link is followed, and nobody waits for a pipe.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/file.h"
#include "base/result.h"

namespace trainyard::instance {

// The directory /opt/ml as the machine sees it.
Result<Fd> open_ml(const Path& ml);

// For writing, made if it is missing; `path` is relative to /opt/ml, its directories exist. `flags`
// say what becomes of bytes that are there: O_APPEND or O_TRUNC. kInvalidArgument for what is there
// and no regular file.
Result<Fd> open_own_file(const Fd& ml, const std::string& path, int flags);

}  // namespace trainyard::instance
