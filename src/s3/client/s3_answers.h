// SPDX-License-Identifier: Apache-2.0
// What S3's answers to S3Client mean. Pure.
#pragma once

#include <string>
#include <vector>

#include "http/message.h"
#include "s3/object_store.h"

namespace trainyard::s3 {

// Of a GET or HEAD; the size is that of the whole object.
ObjectInfo read_object_info(const std::string& key, const http::Response& response);

// kCorrupt for a body that is not the expected XML.
Result<std::vector<BucketInfo>> read_bucket_list(const std::string& body);
// encoding-type=url; next_after is the continuation token.
Result<ListPage> read_object_list(const std::string& body);
Result<std::string> read_upload_id(const std::string& body);

struct PartPage {
  std::vector<PartInfo> parts;
  std::string next;  // part-number-marker; empty at the end
};
Result<PartPage> read_part_list(const std::string& body);

struct UploadPage {
  std::vector<UploadInfo> uploads;
  std::string next_key;  // key-marker; empty at the end
  std::string next_id;   // upload-id-marker
};
Result<UploadPage> read_upload_list(const std::string& body);  // encoding-type=url

// ETag and time of CopyObject, CompleteMultipartUpload and UploadPartCopy.
struct Made {
  std::string etag;
  WallTime last_modified{};
};
Result<Made> read_made(const std::string& body);

std::string write_part_list(const std::vector<PartInfo>& parts);  // to complete an upload

}  // namespace trainyard::s3
