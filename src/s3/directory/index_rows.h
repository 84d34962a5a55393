// SPDX-License-Identifier: Apache-2.0
// The rows of an index, read and changed on one connection inside whatever transaction it is in.
// For index*.cc only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "s3/directory/index.h"
#include "s3/directory/record.h"
#include "sql/connection.h"

namespace trainyard::s3 {

inline std::int64_t to_integer(WallTime time) {
  return time.time_since_epoch().count();
}
inline WallTime to_time(std::int64_t value) {
  return WallTime(Duration(value));
}

Error no_upload(const std::string& id);

Result<std::int64_t> bucket_id(Connection& connection, const std::string& bucket);

// One look-up for both names: kNotFound, subject "bucket" or "key".
Result<ObjectRow> find_object(Connection& connection, const std::string& bucket,
                              const std::string& key, Parts parts = Parts::kRead);
Result<std::optional<ObjectRow>> find_object(Connection& connection, std::int64_t bucket,
                                             const std::string& key);
// Puts a content on the list of garbage and into `dropped`.
Result<void> discard(Connection& connection, const std::string& content, Contents& dropped);
// Gives what was there before.
Result<std::optional<ObjectRow>> replace_object(Connection& connection, std::int64_t bucket,
                                                const ObjectRow& row,
                                                const WriteCondition& condition, Contents& dropped);

Result<std::vector<PartRow>> find_parts(Connection& connection, const std::string& upload_id);
// In the order of key and id.
Result<std::vector<UploadInfo>> find_uploads(Connection& connection, std::int64_t bucket,
                                             const UploadsAfter& after);
// The end of a put whose content was synced beside the index: it stays, or the object is what it
// was before. Its record goes.
Result<void> end_unconfirmed(Connection& connection, const std::string& content, bool is_good);

// Removes the upload and its parts; their contents, but for `kept`, become garbage.
Result<void> erase_upload(Connection& connection, const std::string& upload_id,
                          const std::string& kept, Contents& dropped);

}  // namespace trainyard::s3
