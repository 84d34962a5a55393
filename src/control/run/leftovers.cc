// SPDX-License-Identifier: Apache-2.0
#include "control/run/leftovers.h"

#include <fmt/format.h>

#include "base/log.h"
#include "base/text.h"

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

// "7/algo-1/model.tar.gz" is of the seventh attempt.
bool is_before(std::string_view part, int epoch) {
  const auto number = parse_int(split(part, '/').front());
  return number && *number < epoch;
}

Result<void> remove_parts(s3::ObjectStore& objects, const s3::Uri& place, int epoch) {
  s3::ListQuery query{.prefix = place.key};
  for (bool more = true; more;) {
    YARD_TRY(const s3::ListPage page, objects.list(place.bucket, query));
    std::vector<std::string> keys;
    for (const s3::ObjectInfo& object : page.objects) {
      if (is_before(std::string_view(object.key).substr(place.key.size()), epoch)) {
        keys.push_back(object.key);
      }
    }
    if (!keys.empty()) {
      YARD_TRY(objects.remove_all(place.bucket, keys));
    }
    query.after = page.next_after;
    more = page.truncated;
  }
  return {};
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
                  const std::function<bool(std::string_view key)>& is_revoked) {
  int count = 0;
  for (const s3::Uri& place : places) {
    const auto uploads = objects.list_uploads(place.bucket, place.key);
    if (!uploads) {
      log_warning(fmt::format("unfinished uploads to {} could not be listed: {}",
                              s3::to_string(place), uploads.error().message));
      continue;
    }
    for (const s3::UploadInfo& upload : *uploads) {
      if (is_revoked(upload.owner)) {
        count += abort_upload(objects, place.bucket, upload) ? 1 : 0;
      }
    }
  }
  return count;
}

void remove_parts_before(s3::ObjectStore& objects, const std::string& place, int epoch) {
  const Result<s3::Uri> uri = s3::parse_uri(place);
  const Result<void> removed = uri ? remove_parts(objects, *uri, epoch) : Result<void>(uri.error());
  if (!removed) {
    log_warning(fmt::format("parts of earlier attempts in {} could not be removed: {}", place,
                            removed.error().message));
  }
}

}  // namespace trainyard::control
