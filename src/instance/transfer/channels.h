// SPDX-License-Identifier: Apache-2.0
// Brings the channels of a job to this host: lists each prefix, lets channel_plan.h decide, and
// downloads with a few threads. Fails before the user's program starts, naming channel and object.
// A channel that an attempt before has brought whole is not brought again.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "instance/transfer/downloads.h"
#include "s3/object_store.h"
#include "wire/messages.h"

namespace trainyard::instance {

// The list of a channel's objects, beside its directory. It is written last, so a channel is
// complete when its manifest is there.
Path channel_manifest(const Path& channel);

// Fills <ml>/input/data/<channel> and writes <channel>-manifest beside it. Gives what the job's
// StatusMessage must not keep back: objects that were left out.
Result<std::vector<std::string>> fetch_channels(const wire::Assignment& assignment,
                                                s3::ObjectStore& store, const Path& ml,
                                                const ProgressSinks& sinks,
                                                const std::stop_token& stop);

}  // namespace trainyard::instance
