// SPDX-License-Identifier: Apache-2.0
#include "store/upload_pages.h"

#include "s3/names.h"

namespace trainyard::store {
namespace {

// Greater than every key that begins with it: no key, being UTF-8, holds that byte.
std::string behind(const std::string& common_prefix) {
  return common_prefix + '\xFF';
}

class Pager {
 public:
  explicit Pager(const UploadQuery& query) : query_(query) {}

  // Where the next uploads are to be asked for. One more than a page holds tells whether there are
  // more.
  s3::UploadsAfter next() const {
    s3::UploadsAfter after{.prefix = query_.prefix, .limit = query_.limit + 1};
    const bool has_begun = !page_.next_key.empty();
    const std::string& key = has_begun ? page_.next_key : query_.key_marker;
    // A marker that is a common prefix stands for all that begins with it.
    if (!key.empty() && common_prefix_of(key) == key) {
      after.key = behind(key);
    } else {
      after.key = key;
      after.id = has_begun ? page_.next_id : query_.id_marker;
    }
    return after;
  }

  // False when there is no room for it.
  bool take(const s3::UploadInfo& upload) {
    const std::string common = common_prefix_of(upload.key);
    if (!common.empty() && common == page_.next_key) {
      return true;
    }
    if (page_.uploads.size() + page_.common_prefixes.size() == query_.limit) {
      page_.truncated = true;
      return false;
    }
    if (common.empty()) {
      page_.uploads.push_back(upload);
    } else {
      page_.common_prefixes.push_back(common);
    }
    page_.next_key = common.empty() ? upload.key : common;
    page_.next_id = common.empty() ? upload.upload_id : "";
    return true;
  }

  UploadPage finish() {
    if (!page_.truncated) {
      page_.next_key.clear();
      page_.next_id.clear();
    }
    return std::move(page_);
  }

 private:
  std::string common_prefix_of(const std::string& key) const {
    return s3::common_prefix_of(key, query_.prefix, query_.delimiter);
  }

  const UploadQuery& query_;
  UploadPage page_;
};

}  // namespace

Result<UploadPage> page_uploads(const UploadSource& source, const UploadQuery& query) {
  if (query.limit == 0) {
    return UploadPage{};
  }
  Pager pager(query);
  while (true) {
    const s3::UploadsAfter after = pager.next();
    YARD_TRY(const auto uploads, source(after));
    for (const s3::UploadInfo& upload : uploads) {
      if (!pager.take(upload)) {
        return pager.finish();
      }
    }
    if (uploads.size() < after.limit) {
      return pager.finish();
    }
  }
}

}  // namespace trainyard::store
