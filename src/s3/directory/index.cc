// SPDX-License-Identifier: Apache-2.0
#include "s3/directory/index.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "s3/directory/index_rows.h"
#include "s3/directory/lister.h"
#include "s3/directory/record.h"

namespace trainyard::s3 {
namespace {

constexpr int kCacheKib = 4'096;

// Names and keys are blobs, so that they compare byte by byte. Bucket numbers are never reused: a
// reader that has looked one up cannot meet another bucket's objects.
constexpr std::string_view kFirst = R"(
  CREATE TABLE IF NOT EXISTS buckets(
    id INTEGER PRIMARY KEY AUTOINCREMENT, name BLOB NOT NULL UNIQUE, created INTEGER NOT NULL);
  CREATE TABLE IF NOT EXISTS objects(
    bucket INTEGER NOT NULL, key BLOB NOT NULL, size INTEGER NOT NULL, etag BLOB NOT NULL,
    modified INTEGER NOT NULL, content BLOB NOT NULL, upload BLOB NOT NULL,
    description BLOB NOT NULL, PRIMARY KEY(bucket, key)) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS uploads(
    id BLOB PRIMARY KEY, bucket INTEGER NOT NULL, key BLOB NOT NULL, started INTEGER NOT NULL,
    options BLOB NOT NULL) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS uploads_by_key ON uploads(bucket, key, id);
  CREATE TABLE IF NOT EXISTS parts(
    upload BLOB NOT NULL, number INTEGER NOT NULL, size INTEGER NOT NULL, etag BLOB NOT NULL,
    modified INTEGER NOT NULL, content BLOB NOT NULL, checksums BLOB NOT NULL,
    PRIMARY KEY(upload, number)) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS garbage(content BLOB PRIMARY KEY) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS unconfirmed(
    number INTEGER PRIMARY KEY AUTOINCREMENT, content BLOB NOT NULL, bucket INTEGER NOT NULL,
    key BLOB NOT NULL, size INTEGER NOT NULL, etag BLOB NOT NULL, old_content BLOB,
    old_size INTEGER, old_etag BLOB, old_modified INTEGER, old_upload BLOB, old_description BLOB);
  CREATE TABLE IF NOT EXISTS settings(
    bucket INTEGER NOT NULL, name BLOB NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY(bucket, name)) WITHOUT ROWID;
)";
// Databases that were made before they had versions have these tables, too.
constexpr std::array kMigrations{kFirst};

Result<void> erase_object(Connection& connection, std::int64_t bucket, const ObjectRow& row,
                          Contents& dropped) {
  YARD_TRY(discard(connection, row.content, dropped));
  YARD_TRY(Statement erase, connection.prepare("DELETE FROM objects WHERE bucket=?1 AND key=?2"));
  return erase.bind(1, bucket).bind_bytes(2, row.info.key).run();
}

}  // namespace

Result<std::unique_ptr<Index>> Index::open(const Path& file) {
  std::unique_ptr<Index> index(new Index());
  const sql::AroundEach around{
      .first = [raw = index.get()](Connection& connection) { return raw->forget(connection); },
      .committed = [raw = index.get()] { raw->forgotten(); }};
  YARD_TRY(index->database_,
           sql::Database::open(file, kMigrations, {.around = around, .cache_kib = kCacheKib}));
  return index;
}

Result<void> Index::forget(Connection& connection) {
  ++begun_;
  Contents gone;
  std::vector<Settled> settled;
  {
    const MutexLock lock(mutex_);
    gone = collected_;
    collecting_ = gone.size();
    settled = settled_;
    settling_ = settled.size();
  }
  for (const std::string& content : gone) {
    YARD_TRY(Statement erase, connection.prepare("DELETE FROM garbage WHERE content=?1"));
    YARD_TRY(erase.bind_bytes(1, content).run());
  }
  for (const Settled& put : settled) {
    YARD_TRY(end_unconfirmed(connection, put.content, put.is_good));
  }
  return {};
}

void Index::forgotten() {
  ended_ = begun_.load();
  const MutexLock lock(mutex_);
  const auto drop = [](auto& list, std::size_t count) {
    list.erase(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(count));
  };
  drop(collected_, collecting_);
  drop(settled_, settling_);
}

Result<Contents> Index::replace(const Replacement& body) {
  Contents dropped;
  Result<void> result = change([&](Connection& connection) {
    dropped.clear();
    return body(connection, dropped);
  });
  return result ? Result<Contents>(std::move(dropped)) : std::move(result).error();
}

Result<std::vector<BucketInfo>> Index::buckets() {
  YARD_TRY(Reader connection, reader());
  YARD_TRY(Statement query, connection->prepare("SELECT name, created FROM buckets ORDER BY name"));
  std::vector<BucketInfo> buckets;
  while (true) {
    YARD_TRY(const bool found, query.step());
    if (!found) {
      return buckets;
    }
    buckets.push_back({.name = query.text(0), .created = to_time(query.integer(1))});
  }
}

Result<void> Index::require_bucket(const std::string& bucket) {
  YARD_TRY(Reader connection, reader());
  const auto id = bucket_id(*connection, bucket);
  return id ? Result<void>() : Result<void>(id.error());
}

Result<void> Index::add_bucket(const BucketInfo& bucket) {
  return change([&](Connection& connection) -> Result<void> {
    if (bucket_id(connection, bucket.name)) {
      return Error{Code::kAlreadyExists, "the bucket '" + bucket.name + "' is already there",
                   "bucket"};
    }
    YARD_TRY(Statement insert,
             connection.prepare("INSERT INTO buckets(name, created) VALUES(?1,?2)"));
    return insert.bind_bytes(1, bucket.name).bind(2, to_integer(bucket.created)).run();
  });
}

Result<Contents> Index::remove_bucket(const std::string& bucket) {
  return replace([&](Connection& connection, Contents& dropped) -> Result<void> {
    YARD_TRY(const std::int64_t id, bucket_id(connection, bucket));
    {
      YARD_TRY(Statement any, connection.prepare("SELECT 1 FROM objects WHERE bucket=?1 LIMIT 1"));
      YARD_TRY(const bool found, any.bind(1, id).step());
      if (found) {
        return Error{Code::kConflict, "the bucket '" + bucket + "' is not empty", "bucket"};
      }
    }
    YARD_TRY(const auto uploads, find_uploads(connection, id, {.limit = kNoLimit}));
    for (const UploadInfo& upload : uploads) {
      YARD_TRY(erase_upload(connection, upload.upload_id, "", dropped));
    }
    YARD_TRY(Statement forget, connection.prepare("DELETE FROM settings WHERE bucket=?1"));
    YARD_TRY(forget.bind(1, id).run());
    YARD_TRY(Statement erase, connection.prepare("DELETE FROM buckets WHERE id=?1"));
    return erase.bind(1, id).run();
  });
}

Result<ObjectRow> Index::object(const std::string& bucket, const std::string& key, Parts parts) {
  YARD_TRY(Reader connection, reader());
  return find_object(*connection, bucket, key, parts);
}

Result<Contents> Index::put_object(const std::string& bucket, const ObjectRow& row,
                                   const WriteCondition& condition) {
  return replace([&](Connection& connection, Contents& dropped) -> Result<void> {
    YARD_TRY(const std::int64_t id, bucket_id(connection, bucket));
    YARD_TRY(replace_object(connection, id, row, condition, dropped));
    return {};
  });
}

Result<void> Index::set_tags(const std::string& bucket, const std::string& key,
                             const std::map<std::string, std::string>& tags) {
  return change([&](Connection& connection) -> Result<void> {
    YARD_TRY(ObjectRow row, find_object(connection, bucket, key));
    YARD_TRY(const std::int64_t id, bucket_id(connection, bucket));
    row.info.tags = tags;
    Contents none;
    YARD_TRY(replace_object(connection, id, row, {}, none));
    return {};
  });
}

Result<Contents> Index::remove_objects(const std::string& bucket,
                                       const std::vector<std::string>& keys) {
  return replace([&](Connection& connection, Contents& dropped) -> Result<void> {
    YARD_TRY(const std::int64_t id, bucket_id(connection, bucket));
    for (const std::string& key : keys) {
      YARD_TRY(const auto old, find_object(connection, id, key));
      if (old) {
        YARD_TRY(erase_object(connection, id, *old, dropped));
      }
    }
    return {};
  });
}

Result<Contents> Index::remove_object_if(const std::string& bucket, const std::string& key,
                                         const std::string& etag) {
  return replace([&](Connection& connection, Contents& dropped) -> Result<void> {
    YARD_TRY(const ObjectRow old, find_object(connection, bucket, key));
    if (etag != "*" && old.info.etag != etag) {
      return Error{Code::kConflict, "the object '" + key + "' has another ETag than was asked for",
                   "precondition"};
    }
    YARD_TRY(const std::int64_t id, bucket_id(connection, bucket));
    return erase_object(connection, id, old, dropped);
  });
}

Result<ListPage> Index::list(const std::string& bucket, const ListQuery& query) {
  YARD_TRY(Reader connection, reader());
  YARD_TRY(const std::int64_t id, bucket_id(*connection, bucket));
  YARD_TRY(Statement walk, connection->prepare("SELECT key, size, etag, modified, description"
                                               " FROM objects WHERE bucket=?1 AND key>=?2"
                                               " ORDER BY key"));
  return list_page(walk, id, query);
}

Result<std::string> Index::setting(const std::string& bucket, const std::string& name) {
  YARD_TRY(Reader connection, reader());
  YARD_TRY(const std::int64_t id, bucket_id(*connection, bucket));
  YARD_TRY(Statement query,
           connection->prepare("SELECT value FROM settings WHERE bucket=?1 AND name=?2"));
  YARD_TRY(const bool found, query.bind(1, id).bind_bytes(2, name).step());
  return found ? query.text(0) : std::string();
}

Result<void> Index::set_setting(const std::string& bucket, const std::string& name,
                                const std::string& text) {
  return change([&](Connection& connection) -> Result<void> {
    YARD_TRY(const std::int64_t id, bucket_id(connection, bucket));
    if (text.empty()) {
      YARD_TRY(Statement erase,
               connection.prepare("DELETE FROM settings WHERE bucket=?1 AND name=?2"));
      return erase.bind(1, id).bind_bytes(2, name).run();
    }
    YARD_TRY(Statement insert, connection.prepare("INSERT OR REPLACE INTO settings(bucket, name,"
                                                  " value) VALUES(?1,?2,?3)"));
    return insert.bind(1, id).bind_bytes(2, name).bind_bytes(3, text).run();
  });
}

Result<Contents> Index::garbage() {
  YARD_TRY(Reader connection, reader());
  YARD_TRY(Statement query, connection->prepare("SELECT content FROM garbage"));
  Contents contents;
  while (true) {
    YARD_TRY(const bool found, query.step());
    if (!found) {
      return contents;
    }
    contents.push_back(query.text(0));
  }
}

void Index::collected(const Contents& contents) {
  const MutexLock lock(mutex_);
  collected_.insert(collected_.end(), contents.begin(), contents.end());
}

Result<std::set<std::string>> Index::used(const std::set<std::string>& contents) {
  std::set<std::string> used;
  YARD_TRY(Reader connection, reader());
  YARD_TRY(Statement query,
           connection->prepare("SELECT content FROM objects UNION ALL SELECT content FROM parts"));
  while (!contents.empty()) {
    YARD_TRY(const bool found, query.step());
    if (!found) {
      break;
    }
    if (std::string content = query.text(0); contents.contains(content)) {
      used.insert(std::move(content));
    }
  }
  return used;
}

}  // namespace trainyard::s3
