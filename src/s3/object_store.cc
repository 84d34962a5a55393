// SPDX-License-Identifier: Apache-2.0
// What a store does that has no better way.
#include "s3/object_store.h"

#include <algorithm>

namespace trainyard::s3 {
namespace {

Error unkept(std::string_view what) {
  return Error{Code::kUnimplemented, "this store keeps no " + std::string(what)};
}

Error changed(const std::string& key) {
  return Error{Code::kConflict, "the object '" + key + "' is not the one that was named",
               "precondition"};
}

}  // namespace

Result<ObjectInfo> ObjectStore::complete_upload_if(const std::string& bucket,
                                                   const std::string& key,
                                                   const std::string& upload_id,
                                                   const std::vector<PartInfo>& parts,
                                                   const CompleteOptions& options) {
  if (options.only_if_absent || options.only_if_match) {
    const auto there = head(bucket, key);
    if (!there && (there.error().code != Code::kNotFound || options.only_if_match)) {
      return there.error();
    }
    if (there && (options.only_if_absent || there->etag != *options.only_if_match)) {
      return changed(key);
    }
  }
  if (options.before_visible) {
    YARD_TRY(options.before_visible());
  }
  return complete_upload(bucket, key, upload_id, parts);
}

Result<std::vector<UploadInfo>> ObjectStore::list_uploads_after(const std::string& bucket,
                                                                const UploadsAfter& after) {
  YARD_TRY(std::vector<UploadInfo> uploads, list_uploads(bucket, after.prefix));
  std::erase_if(uploads, [&](const UploadInfo& upload) {
    const bool is_behind_id = !after.id.empty() && upload.upload_id > after.id;
    return upload.key < after.key || (upload.key == after.key && !is_behind_id);
  });
  uploads.resize(std::min(uploads.size(), after.limit));
  return uploads;
}

Result<void> ObjectStore::remove_if(const std::string& bucket, const std::string& key,
                                    const std::string& etag) {
  YARD_TRY(const ObjectInfo there, head(bucket, key));
  return there.etag == etag ? remove(bucket, key) : Result<void>(changed(key));
}

Result<void> ObjectStore::set_tags(const std::string& /*bucket*/, const std::string& /*key*/,
                                   const std::map<std::string, std::string>& /*tags*/) {
  return unkept("tags");
}

Result<std::string> ObjectStore::bucket_setting(const std::string& /*bucket*/,
                                                const std::string& /*name*/) {
  return unkept("settings of buckets");
}

Result<void> ObjectStore::set_bucket_setting(const std::string& /*bucket*/,
                                             const std::string& /*name*/,
                                             const std::string& /*text*/) {
  return unkept("settings of buckets");
}

}  // namespace trainyard::s3
