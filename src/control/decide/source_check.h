// SPDX-License-Identifier: Apache-2.0
// Script mode's archive, looked at before a gang starts: a job whose code is missing ends at once
// with a reason that says what is there instead, and no instance has moved. Blocks on the object
// store, so the reconciler runs it on a worker.
#pragma once

#include <optional>
#include <string>

#include "control/job/job.h"
#include "s3/object_store.h"

namespace trainyard::control {

struct Source {
  std::string archive;      // "s3://bucket/.../sourcedir.tar.gz"
  std::string entry_point;  // as in sagemaker_program; empty when none is named
};

// From the hyperparameters `sagemaker_submit_directory` and `sagemaker_program`, which clients send
// JSON-encoded. Empty when the job brings no archive in S3 (other images, code in a channel).
std::optional<Source> source_of(const Job& job);

// kNotFound or kInvalidArgument: the user's fault, with the path and the archive's content named.
Result<void> check_source(s3::ObjectStore& objects, const Source& source);

}  // namespace trainyard::control
