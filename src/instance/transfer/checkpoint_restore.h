// SPDX-License-Identifier: Apache-2.0
// Makes the checkpoint directory of this host equal to what lies under the job's checkpoint prefix,
// before the user's program starts, on every host and at every attempt. On a machine that has been
// in the attempt before, only what differs is fetched. Links that user code has left are removed,
// never followed.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "instance/transfer/checkpoint_place.h"
#include "instance/transfer/checkpoint_plan.h"
#include "instance/transfer/downloads.h"
#include "s3/object_store.h"

namespace trainyard::instance {

struct RestoreFile {
  Download from;
  std::string etag;
};

// What the objects below a prefix become. Pure.
struct RestorePlan {
  std::map<std::string, RestoreFile> files;  // by path
  std::set<std::string> directories;         // all that are needed, and those named by 'x/' keys
  std::vector<std::string> refused;          // "'key' (why)"
};

// `objects` begin with `prefix`, which is empty or ends in '/'. A key that cannot be a path below
// the directory is refused by name; where both x and x/y exist the directory wins.
RestorePlan plan_restore(std::string_view prefix, const std::vector<s3::ObjectInfo>& objects);

// Gives what the mirror begins with. Leaves files with the times of their objects, because many
// programs take the newest file for the latest checkpoint.
Result<StoredFiles> restore_checkpoints(const CheckpointPlace& place, s3::ObjectStore& store,
                                        const ProgressSinks& sinks, const std::stop_token& stop);

// What a host knows survives an attempt beside the directory. A missing or strange file reads as
// knowing nothing.
Result<void> save_stored(const CheckpointPlace& place, const StoredFiles& files);
StoredFiles load_stored(const CheckpointPlace& place);

}  // namespace trainyard::instance
