// SPDX-License-Identifier: Apache-2.0
// Sends a directory of results to S3, packed while it is sent: no temporary copy, whatever its
// size. What leaves the directory (links) is left out by name, so that a job cannot carry foreign
// files out; so is what cannot be carried (sockets, pipes, devices; as objects, names that cannot
// be keys). The job fails then, but days of training are not thrown away for a stray link.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "formats/left_out.h"
#include "s3/object_store.h"
#include "wire/messages.h"

namespace trainyard::instance {

// True when `directory` (below `root`) is a real directory that holds something. No part of the way
// below `root` may be a link: user code could have put one there.
bool holds_files(const Path& root, const std::string& directory);

// The names of the first files and links below the directory, in the order in which they are sent,
// until they are 300 or 16 KiB: by them the server sees what several hosts have saved.
std::vector<std::string> first_names(const Path& root, const std::string& directory);

// `what` names the directory in errors: "/opt/ml/model". An error when it is not in the store, with
// the subject kMayPass (upload_patience.h) when the store may take it later; else what had to be
// left out.
Result<LeftOut> upload_artifact(s3::ObjectStore& store, const wire::ArtifactUpload& upload,
                                const Path& tree, const std::string& what);

// The client's fault: names what was left out, and says that the rest is there.
Error left_out_error(const LeftOut& left_out, const wire::ArtifactUpload& upload,
                     const std::string& what);

}  // namespace trainyard::instance
