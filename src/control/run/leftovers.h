// SPDX-License-Identifier: Apache-2.0
// What attempts that are over have left in the store. Uploads in parts that nobody can complete any
// more, because a supervisor was killed in the middle: seen by nobody, they take room until the
// store forgets them, days later. They are found by the keys that began them, so that what others
// upload to the same places is left alone. And parts of results (decide/artifacts.h) that wait to
// be joined, when the next attempt sends its own.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "control/job/job.h"
#include "s3/object_store.h"

namespace trainyard::control {

// Where instances of the job upload to: its results, and its checkpoints if it has any.
std::vector<s3::Uri> upload_places(const Job& job);

// Aborts the uploads at these places that were begun by access keys that are worth nothing any
// more. How many there were. An error of the store is logged: what is left then costs room, and
// nothing else.
int abort_uploads(s3::ObjectStore& objects, const std::vector<s3::Uri>& places,
                  const std::function<bool(std::string_view key)>& is_revoked);

// Removes the parts that attempts before `epoch` have sent. `place` is the job's all_parts_place().
// An error is logged, as above.
void remove_parts_before(s3::ObjectStore& objects, const std::string& place, int epoch);

}  // namespace trainyard::control
