// SPDX-License-Identifier: Apache-2.0
// Uploads in parts that an attempt has begun and can no longer complete, because its supervisor was
// killed in the middle: their parts would lie in the store for ever, seen by nobody. Found by the
// keys that began them, so that what others upload to the same places is left alone.
#pragma once

#include <string>
#include <vector>

#include "control/job/job.h"
#include "s3/object_store.h"

namespace trainyard::control {

// Where instances of the job upload to: its results, and its checkpoints if it has any.
std::vector<s3::Uri> upload_places(const Job& job);

// Aborts the uploads at these places that one of the access keys has begun; the keys are worth
// nothing any more. How many there were. An error of the store is logged: what is left then costs
// room, and nothing else.
int abort_uploads(s3::ObjectStore& objects, const std::vector<s3::Uri>& places,
                  const std::vector<std::string>& keys);

}  // namespace trainyard::control
