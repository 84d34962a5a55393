// SPDX-License-Identifier: Apache-2.0
// Puts whose content is synced at the same time as the index, not before it: one wait for the disk
// instead of two. The change is recorded together with what it replaces; the record goes with the
// next transaction after both are durable. What a crash leaves of such records is judged by the
// content itself, the latest first: whole, and the put stands; torn, and the object is again what
// it was, whose content nobody removes before the put has been confirmed.
#include "base/log.h"
#include "s3/directory/index.h"
#include "s3/directory/index_rows.h"
#include "s3/directory/record.h"

namespace trainyard::s3 {
namespace {

Result<void> remember(Connection& connection, std::int64_t bucket, const ObjectRow& row,
                      const std::optional<ObjectRow>& old) {
  if (!old) {
    YARD_TRY(Statement insert,
             connection.prepare("INSERT INTO unconfirmed(content, bucket, key, size, etag)"
                                " VALUES(?1,?2,?3,?4,?5)"));
    insert.bind_bytes(1, row.content).bind(2, bucket).bind_bytes(3, row.info.key);
    return insert.bind(4, static_cast<std::int64_t>(row.info.size))
        .bind_bytes(5, row.info.etag)
        .run();
  }
  YARD_TRY(
      Statement insert,
      connection.prepare("INSERT INTO unconfirmed(content, bucket, key, size, etag, old_content,"
                         " old_size, old_etag, old_modified, old_upload, old_description)"
                         " VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11)"));
  const std::string description = encode_description(old->info);
  insert.bind_bytes(1, row.content).bind(2, bucket).bind_bytes(3, row.info.key);
  insert.bind(4, static_cast<std::int64_t>(row.info.size)).bind_bytes(5, row.info.etag);
  insert.bind_bytes(6, old->content).bind(7, static_cast<std::int64_t>(old->info.size));
  insert.bind_bytes(8, old->info.etag).bind(9, to_integer(old->info.last_modified));
  return insert.bind_bytes(10, old->upload).bind_bytes(11, description).run();
}

// A later put on the same key has recorded `content` as what it replaced. That is lost: what
// `content` itself replaced takes its place, should the later put fail, too.
Result<void> hand_on_replaced(Connection& connection, const std::string& content) {
  YARD_TRY(
      Statement update,
      connection.prepare("UPDATE unconfirmed SET (old_content, old_size, old_etag, old_modified,"
                         " old_upload, old_description)=(SELECT old_content, old_size, old_etag,"
                         " old_modified, old_upload, old_description FROM unconfirmed"
                         " WHERE content=?1) WHERE old_content=?1"));
  return update.bind_bytes(1, content).run();
}

// The object as it was before the put of `content`, unless somebody has changed it since.
Result<void> take_back(Connection& connection, const std::string& content) {
  YARD_TRY(Statement query,
           connection.prepare("SELECT bucket, key, old_content, old_size, old_etag, old_modified,"
                              " old_upload, old_description FROM unconfirmed WHERE content=?1"));
  YARD_TRY(const bool found, query.bind_bytes(1, content).step());
  if (!found) {
    return {};
  }
  const std::int64_t bucket = query.integer(0);
  const std::string key = query.text(1);
  YARD_TRY(const auto there, find_object(connection, bucket, key));
  if (!there || there->content != content) {
    return hand_on_replaced(connection, content);
  }
  Contents dropped;
  YARD_TRY(discard(connection, content, dropped));
  if (query.is_null(2)) {
    YARD_TRY(Statement erase, connection.prepare("DELETE FROM objects WHERE bucket=?1 AND key=?2"));
    return erase.bind(1, bucket).bind_bytes(2, key).run();
  }
  ObjectRow old{.info = {.key = key,
                         .size = static_cast<std::uint64_t>(query.integer(3)),
                         .etag = query.text(4),
                         .last_modified = to_time(query.integer(5))},
                .content = query.text(2),
                .upload = query.text(6)};
  YARD_TRY(decode_description(query.text(7), old.info));
  YARD_TRY(replace_object(connection, bucket, old, {}, dropped));
  YARD_TRY(Statement keep, connection.prepare("DELETE FROM garbage WHERE content=?1"));
  return keep.bind_bytes(1, old.content).run();
}

}  // namespace

Result<void> end_unconfirmed(Connection& connection, const std::string& content, bool is_good) {
  if (!is_good) {
    YARD_TRY(take_back(connection, content));
  }
  YARD_TRY(Statement erase, connection.prepare("DELETE FROM unconfirmed WHERE content=?1"));
  return erase.bind_bytes(1, content).run();
}

Result<Contents> Index::put_object_while(const std::string& bucket, const ObjectRow& row,
                                         const WriteCondition& condition,
                                         const std::function<Result<void>()>& meanwhile) {
  Contents dropped;
  sql::GroupCommit::Ticket ticket = database_->hand_in([&](Connection& connection) -> Result<void> {
    dropped.clear();
    YARD_TRY(const std::int64_t id, bucket_id(connection, bucket));
    YARD_TRY(const auto old, replace_object(connection, id, row, condition, dropped));
    return remember(connection, id, row, old);
  });
  const Result<void> synced = meanwhile();
  YARD_TRY(ticket.wait());
  if (!synced) {
    if (auto back = confirm({.content = row.content, .etag = {}}, false); !back) {
      // Until then who asks for the object finds no content.
      log_warning("store: a put that failed is taken back with the next change only: " +
                  back.error().message);
      const MutexLock lock(mutex_);
      settled_.push_back({.content = row.content, .is_good = false});
    }
    return synced.error();
  }
  const MutexLock lock(mutex_);
  settled_.push_back({.content = row.content, .is_good = true});
  return dropped;
}

Result<std::vector<Unconfirmed>> Index::unconfirmed() {
  YARD_TRY(Reader connection, reader());
  YARD_TRY(Statement query, connection->prepare("SELECT number, content, size, etag"
                                                " FROM unconfirmed ORDER BY number DESC"));
  std::vector<Unconfirmed> changes;
  while (true) {
    YARD_TRY(const bool found, query.step());
    if (!found) {
      return changes;
    }
    changes.push_back({.number = query.integer(0),
                       .content = query.text(1),
                       .size = static_cast<std::uint64_t>(query.integer(2)),
                       .etag = query.text(3)});
  }
}

Result<void> Index::confirm(const Unconfirmed& change, bool is_good) {
  return this->change(
      [&](Connection& connection) { return end_unconfirmed(connection, change.content, is_good); });
}

Result<void> Index::confirm_all() {
  {
    const MutexLock lock(mutex_);
    if (settled_.empty()) {
      return {};
    }
  }
  // Every transaction begins with it.
  return change([](Connection&) { return Result<void>(); });
}

}  // namespace trainyard::s3
