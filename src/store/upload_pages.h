// SPDX-License-Identifier: Apache-2.0
// One page of a bucket's unfinished uploads, as ListMultipartUploads cuts it, of no more of them
// than the page needs.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "s3/object_store.h"

namespace trainyard::store {

struct UploadQuery {
  std::string prefix = {};
  std::string delimiter = {};
  std::string key_marker = {};  // uploads of greater keys follow,
  std::string id_marker = {};   // and of this very key those of greater ids, when it is given
  std::size_t limit = 1'000;    // of uploads and common prefixes together
};

struct UploadPage {
  std::vector<s3::UploadInfo> uploads = {};
  std::vector<std::string> common_prefixes = {};
  bool truncated = false;
  std::string next_key = {};
  std::string next_id = {};  // empty behind a common prefix
};

// As ObjectStore::list_uploads_after().
using UploadSource = std::function<Result<std::vector<s3::UploadInfo>>(const s3::UploadsAfter&)>;

Result<UploadPage> page_uploads(const UploadSource& source, const UploadQuery& query);

}  // namespace trainyard::store
