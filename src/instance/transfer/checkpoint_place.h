// SPDX-License-Identifier: Apache-2.0
// Where a job's checkpoints are: under which prefix of the object store, at which path of the
// container, and in which directory of this machine. Pure. A checkpoint prefix is a directory:
// `train` and `train/` both mean train/a, and never train2/a.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/result.h"
#include "s3/object_store.h"

namespace trainyard::instance {

struct CheckpointPlace {
  std::string bucket;
  std::string prefix;  // ends in '/', or is empty: the whole bucket
  std::string inside;  // CheckpointConfig.LocalPath, normalised, without a final slash
  Path directory;      // on this machine; bound to `inside` in the container

  std::string uri() const { return s3::to_string({.bucket = bucket, .key = prefix}); }
};

// Nothing for a job without CheckpointConfig. `scratch` is the instance's.
Result<std::optional<CheckpointPlace>> checkpoint_place(const nlohmann::json& request,
                                                        const Path& scratch);

// What /opt/ml/input/config/checkpointconfig.json holds; null for a job without CheckpointConfig.
nlohmann::json checkpoint_config(const nlohmann::json& request);

// Why the file at `path` below the directory cannot become an object; empty when it can.
std::string why_no_key(const CheckpointPlace& place, std::string_view path);

}  // namespace trainyard::instance
