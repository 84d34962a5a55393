// SPDX-License-Identifier: Apache-2.0
// Brings the user's source to /opt/ml/code: a .tar.gz from S3, unpacked as it arrives, or an
// archive or directory that a channel has brought. Checks that the entry point is there before
// anything is started. Archives are hostile: formats/archive.h refuses what would leave the
// directory.
#pragma once

#include "base/file.h"
#include "base/result.h"
#include "instance/launch/launch_plan.h"
#include "s3/object_store.h"
#include "wire/messages.h"

namespace trainyard::instance {

// Fills <ml>/code and says what it holds.
Result<CodeFacts> fetch_code(const wire::Assignment& assignment, const LaunchForm& form,
                             s3::ObjectStore& store, const Path& ml);

}  // namespace trainyard::instance
