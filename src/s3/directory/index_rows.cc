// SPDX-License-Identifier: Apache-2.0
#include "s3/directory/index_rows.h"

#include <algorithm>

#include "s3/directory/record.h"

namespace trainyard::s3 {
namespace {

Error no_bucket(const std::string& bucket) {
  return Error{Code::kNotFound, "there is no bucket '" + bucket + "'", "bucket"};
}
Error no_key(const std::string& key) {
  return Error{Code::kNotFound, "there is no object '" + key + "'", "key"};
}

// Columns from `first`: size, etag, modified, content, upload, description.
Result<ObjectRow> read_object(const Statement& query, int first, const std::string& key,
                              Parts parts) {
  ObjectRow row{.info = {.key = key,
                         .size = static_cast<std::uint64_t>(query.integer(first)),
                         .etag = query.text(first + 1),
                         .last_modified = to_time(query.integer(first + 2))},
                .content = query.text(first + 3),
                .upload = query.text(first + 4)};
  YARD_TRY(decode_description(query.text(first + 5), row.info, parts));
  return row;
}

Result<void> check(const WriteCondition& condition, const std::optional<ObjectRow>& old,
                   const std::string& key) {
  if (condition.before_visible) {
    YARD_TRY(condition.before_visible());
  }
  if (condition.only_if_absent && old) {
    return Error{Code::kConflict, "the object '" + key + "' is already there", "precondition"};
  }
  if (!condition.only_if_match) {
    return {};
  }
  if (!old) {
    return no_key(key);
  }
  return *condition.only_if_match == "*" || old->info.etag == *condition.only_if_match
             ? Result<void>()
             : Error{Code::kConflict,
                     "the object '" + key + "' has another ETag than was asked for",
                     "precondition"};
}

}  // namespace

Error no_upload(const std::string& id) {
  return Error{Code::kNotFound, "there is no upload '" + id + "'", "upload"};
}

Result<std::int64_t> bucket_id(Connection& connection, const std::string& bucket) {
  YARD_TRY(Statement query, connection.prepare("SELECT id FROM buckets WHERE name=?1"));
  YARD_TRY(const bool found, query.bind_bytes(1, bucket).step());
  if (!found) {
    return no_bucket(bucket);
  }
  return query.integer(0);
}

Result<ObjectRow> find_object(Connection& connection, const std::string& bucket,
                              const std::string& key, Parts parts) {
  YARD_TRY(Statement query,
           connection.prepare(
               "SELECT o.key IS NOT NULL, o.size, o.etag, o.modified, o.content, o.upload,"
               " o.description FROM buckets b LEFT JOIN objects o ON o.bucket=b.id AND o.key=?2"
               " WHERE b.name=?1"));
  YARD_TRY(const bool found, query.bind_bytes(1, bucket).bind_bytes(2, key).step());
  if (!found) {
    return no_bucket(bucket);
  }
  if (query.integer(0) == 0) {
    return no_key(key);
  }
  return read_object(query, 1, key, parts);
}

Result<std::optional<ObjectRow>> find_object(Connection& connection, std::int64_t bucket,
                                             const std::string& key) {
  YARD_TRY(Statement query,
           connection.prepare("SELECT size, etag, modified, content, upload, description"
                              " FROM objects WHERE bucket=?1 AND key=?2"));
  YARD_TRY(const bool found, query.bind(1, bucket).bind_bytes(2, key).step());
  if (!found) {
    return std::optional<ObjectRow>();
  }
  YARD_TRY(ObjectRow row, read_object(query, 0, key, Parts::kRead));
  return std::optional<ObjectRow>(std::move(row));
}

Result<void> discard(Connection& connection, const std::string& content, Contents& dropped) {
  YARD_TRY(Statement insert,
           connection.prepare("INSERT OR IGNORE INTO garbage(content) VALUES(?1)"));
  dropped.push_back(content);
  return insert.bind_bytes(1, content).run();
}

Result<std::optional<ObjectRow>> replace_object(Connection& connection, std::int64_t bucket,
                                                const ObjectRow& row,
                                                const WriteCondition& condition,
                                                Contents& dropped) {
  YARD_TRY(auto old, find_object(connection, bucket, row.info.key));
  YARD_TRY(check(condition, old, row.info.key));
  if (old && old->content != row.content) {
    YARD_TRY(discard(connection, old->content, dropped));
  }
  YARD_TRY(Statement insert,
           connection.prepare("INSERT OR REPLACE INTO objects(bucket, key, size, etag, modified,"
                              " content, upload, description) VALUES(?1,?2,?3,?4,?5,?6,?7,?8)"));
  const std::string description = encode_description(row.info);
  insert.bind(1, bucket)
      .bind_bytes(2, row.info.key)
      .bind(3, static_cast<std::int64_t>(row.info.size));
  insert.bind_bytes(4, row.info.etag)
      .bind(5, to_integer(row.info.last_modified))
      .bind_bytes(6, row.content);
  YARD_TRY(insert.bind_bytes(7, row.upload).bind_bytes(8, description).run());
  return old;
}

Result<std::vector<PartRow>> find_parts(Connection& connection, const std::string& upload_id) {
  YARD_TRY(Statement query,
           connection.prepare("SELECT number, size, etag, modified, content, checksums"
                              " FROM parts WHERE upload=?1 ORDER BY number"));
  query.bind_bytes(1, upload_id);
  std::vector<PartRow> parts;
  while (true) {
    YARD_TRY(const bool found, query.step());
    if (!found) {
      return parts;
    }
    PartRow& part = parts.emplace_back();
    part.info = {.number = static_cast<int>(query.integer(0)),
                 .size = static_cast<std::uint64_t>(query.integer(1)),
                 .etag = query.text(2),
                 .last_modified = to_time(query.integer(3))};
    part.content = query.text(4);
    YARD_TRY(part.info.checksums, decode_checksums(query.text(5)));
  }
}

Result<std::vector<UploadInfo>> find_uploads(Connection& connection, std::int64_t bucket,
                                             const UploadsAfter& after) {
  YARD_TRY(Statement query,
           connection.prepare("SELECT id, key, started, options FROM uploads WHERE bucket=?1"
                              " AND (key, id)>(?2, ?3) ORDER BY key, id LIMIT ?4"));
  // Ids are hexadecimal: no id is less than "", none greater than the last byte.
  const bool begins_behind = !after.key.empty() && after.key >= after.prefix;
  const std::string id = !begins_behind ? "" : after.id.empty() ? "\xFF" : after.id;
  query.bind(1, bucket).bind_bytes(2, begins_behind ? after.key : after.prefix).bind_bytes(3, id);
  query.bind(4, static_cast<std::int64_t>(std::min(after.limit, kNoLimit)));
  std::vector<UploadInfo> uploads;
  while (true) {
    YARD_TRY(const bool found, query.step());
    if (!found) {
      return uploads;
    }
    UploadInfo upload{
        .key = query.text(1), .upload_id = query.text(0), .started = to_time(query.integer(2))};
    if (!upload.key.starts_with(after.prefix)) {
      return uploads;
    }
    YARD_TRY(PutOptions options, decode_options(query.text(3)));
    upload.owner = std::move(options.owner);
    if (!options.compute.empty()) {
      upload.checksum = options.compute.front();
      upload.full_object_checksum = options.full_object_checksum;
    }
    uploads.push_back(std::move(upload));
  }
}

Result<void> erase_upload(Connection& connection, const std::string& upload_id,
                          const std::string& kept, Contents& dropped) {
  YARD_TRY(const auto parts, find_parts(connection, upload_id));
  for (const PartRow& part : parts) {
    if (part.content != kept) {
      YARD_TRY(discard(connection, part.content, dropped));
    }
  }
  YARD_TRY(Statement erase_parts, connection.prepare("DELETE FROM parts WHERE upload=?1"));
  YARD_TRY(erase_parts.bind_bytes(1, upload_id).run());
  YARD_TRY(Statement erase, connection.prepare("DELETE FROM uploads WHERE id=?1"));
  YARD_TRY(erase.bind_bytes(1, upload_id).run());
  return connection.changes() == 0 ? Result<void>(no_upload(upload_id)) : Result<void>();
}

}  // namespace trainyard::s3
