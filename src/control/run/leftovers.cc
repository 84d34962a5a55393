// SPDX-License-Identifier: Apache-2.0
#include "control/run/leftovers.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/log.h"

namespace trainyard::control {
namespace {

// A prefix is a directory: "train" is "train/", and an empty one is the bucket.
s3::Uri directory(s3::Uri uri) {
  if (!uri.key.empty() && !uri.key.ends_with('/')) {
    uri.key += '/';
  }
  return uri;
}

std::string checkpoint_uri(const Job& job) {
  const auto config = job.request.find("CheckpointConfig");
  if (config == job.request.end()) {
    return {};
  }
  const auto uri = config->find("S3Uri");
  return uri != config->end() && uri->is_string() ? uri->get<std::string>() : std::string();
}

bool abort_upload(s3::ObjectStore& objects, const std::string& bucket,
                  const s3::UploadInfo& upload) {
  const Result<void> aborted = objects.abort_upload(bucket, upload.key, upload.upload_id);
  if (!aborted && aborted.error().code != Code::kNotFound) {
    log_warning(fmt::format("the unfinished upload of s3://{}/{} could not be aborted: {}", bucket,
                            upload.key, aborted.error().message));
  }
  return aborted.has_value();
}

}  // namespace

std::vector<s3::Uri> upload_places(const Job& job) {
  std::vector<s3::Uri> places;
  for (const std::string& text : {artifact_prefix(job), checkpoint_uri(job)}) {
    if (const Result<s3::Uri> uri = s3::parse_uri(text)) {
      places.push_back(directory(*uri));
    }
  }
  return places;
}

int abort_uploads(s3::ObjectStore& objects, const std::vector<s3::Uri>& places,
                  const std::vector<std::string>& keys) {
  int count = 0;
  for (const s3::Uri& place : keys.empty() ? std::vector<s3::Uri>() : places) {
    const auto uploads = objects.list_uploads(place.bucket, place.key);
    if (!uploads) {
      log_warning(fmt::format("unfinished uploads to {} could not be listed: {}",
                              s3::to_string(place), uploads.error().message));
      continue;
    }
    for (const s3::UploadInfo& upload : *uploads) {
      if (std::ranges::find(keys, upload.owner) != keys.end()) {
        count += abort_upload(objects, place.bucket, upload) ? 1 : 0;
      }
    }
  }
  return count;
}

}  // namespace trainyard::control
