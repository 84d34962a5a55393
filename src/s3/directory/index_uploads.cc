// SPDX-License-Identifier: Apache-2.0
// The index's unfinished uploads and their parts.
#include <algorithm>
#include <set>
#include <string_view>

#include "s3/directory/index.h"
#include "s3/directory/index_rows.h"
#include "s3/directory/record.h"

namespace trainyard::s3 {
namespace {

Result<void> discard_part(Connection& connection, const std::string& upload_id, int number,
                          Contents& dropped) {
  YARD_TRY(Statement query,
           connection.prepare("SELECT content FROM parts WHERE upload=?1 AND number=?2"));
  YARD_TRY(const bool found, query.bind_bytes(1, upload_id).bind(2, number).step());
  return found ? discard(connection, query.text(0), dropped) : Result<void>();
}

// Those of which neither the start nor a part is as late as `before`.
Result<std::vector<std::string>> silent_uploads(Connection& connection, WallTime before) {
  YARD_TRY(Statement query,
           connection.prepare("SELECT id FROM uploads WHERE started<?1 AND NOT EXISTS"
                              " (SELECT 1 FROM parts WHERE upload=uploads.id AND modified>=?1)"));
  query.bind(1, to_integer(before));
  std::vector<std::string> ids;
  while (true) {
    YARD_TRY(const bool found, query.step());
    if (!found) {
      return ids;
    }
    ids.push_back(query.text(0));
  }
}

Result<bool> is_silent(Connection& connection, const std::string& upload_id, WallTime before) {
  YARD_TRY(Statement query,
           connection.prepare("SELECT 1 FROM uploads WHERE id=?2 AND started<?1 AND NOT EXISTS"
                              " (SELECT 1 FROM parts WHERE upload=?2 AND modified>=?1)"));
  return query.bind(1, to_integer(before)).bind_bytes(2, upload_id).step();
}

}  // namespace

Result<void> Index::add_upload(const std::string& bucket, const UploadInfo& upload,
                               const PutOptions& options) {
  const std::string text = encode_options(options);
  return change([&](Connection& connection) -> Result<void> {
    YARD_TRY(const std::int64_t id, bucket_id(connection, bucket));
    YARD_TRY(Statement insert,
             connection.prepare("INSERT INTO uploads(id, bucket, key, started, options)"
                                " VALUES(?1,?2,?3,?4,?5)"));
    insert.bind_bytes(1, upload.upload_id).bind(2, id).bind_bytes(3, upload.key);
    return insert.bind(4, to_integer(upload.started)).bind_bytes(5, text).run();
  });
}

Result<PutOptions> Index::upload(const std::string& bucket, const std::string& key,
                                 const std::string& id) {
  YARD_TRY(Reader connection, reader());
  YARD_TRY(const std::int64_t number, bucket_id(*connection, bucket));
  YARD_TRY(Statement query, connection->prepare("SELECT options FROM uploads"
                                                " WHERE id=?1 AND bucket=?2 AND key=?3"));
  YARD_TRY(const bool found, query.bind_bytes(1, id).bind(2, number).bind_bytes(3, key).step());
  if (!found) {
    return no_upload(id);
  }
  return decode_options(query.text(0));
}

Result<std::vector<UploadInfo>> Index::uploads(const std::string& bucket,
                                               const UploadsAfter& after) {
  YARD_TRY(Reader connection, reader());
  YARD_TRY(const std::int64_t id, bucket_id(*connection, bucket));
  return find_uploads(*connection, id, after);
}

Result<Contents> Index::put_part(const std::string& upload_id, const PartRow& part) {
  const std::string checksums = encode_checksums(part.info.checksums);
  return replace([&](Connection& connection, Contents& dropped) -> Result<void> {
    {
      YARD_TRY(Statement any, connection.prepare("SELECT 1 FROM uploads WHERE id=?1"));
      YARD_TRY(const bool found, any.bind_bytes(1, upload_id).step());
      if (!found) {
        return no_upload(upload_id);
      }
    }
    YARD_TRY(discard_part(connection, upload_id, part.info.number, dropped));
    YARD_TRY(Statement insert,
             connection.prepare("INSERT OR REPLACE INTO parts(upload, number, size, etag, modified,"
                                " content, checksums) VALUES(?1,?2,?3,?4,?5,?6,?7)"));
    insert.bind_bytes(1, upload_id).bind(2, part.info.number);
    insert.bind(3, static_cast<std::int64_t>(part.info.size)).bind_bytes(4, part.info.etag);
    insert.bind(5, to_integer(part.info.last_modified)).bind_bytes(6, part.content);
    return insert.bind_bytes(7, checksums).run();
  });
}

Result<std::vector<PartRow>> Index::parts(const std::string& upload_id) {
  YARD_TRY(Reader connection, reader());
  return find_parts(*connection, upload_id);
}

Result<Contents> Index::complete(const std::string& bucket, const ObjectRow& row,
                                 const std::vector<PartRow>& parts,
                                 const WriteCondition& condition) {
  return replace([&](Connection& connection, Contents& dropped) -> Result<void> {
    YARD_TRY(const std::int64_t id, bucket_id(connection, bucket));
    YARD_TRY(const auto stored, find_parts(connection, row.upload));
    std::set<std::string_view> present;
    for (const PartRow& part : stored) {
      present.insert(part.content);
    }
    for (const PartRow& part : parts) {
      if (!present.contains(part.content)) {
        return Error{Code::kConflict, "a part was replaced while the upload was completed",
                     "upload"};
      }
    }
    YARD_TRY(replace_object(connection, id, row, condition, dropped));
    return erase_upload(connection, row.upload, row.content, dropped);
  });
}

Result<Contents> Index::remove_upload(const std::string& upload_id) {
  return replace([&](Connection& connection, Contents& dropped) {
    return erase_upload(connection, upload_id, "", dropped);
  });
}

Result<std::vector<std::string>> Index::uploads_silent_since(WallTime before) {
  YARD_TRY(Reader connection, reader());
  return silent_uploads(*connection, before);
}

Result<Contents> Index::remove_silent_upload(const std::string& upload_id, WallTime before) {
  return replace([&](Connection& connection, Contents& dropped) -> Result<void> {
    // A part may have come since the look.
    YARD_TRY(const bool silent, is_silent(connection, upload_id, before));
    return silent ? erase_upload(connection, upload_id, "", dropped)
                  : Result<void>(no_upload(upload_id));
  });
}

}  // namespace trainyard::s3
