// SPDX-License-Identifier: Apache-2.0
// What a DirectoryStore holds, in one SQLite file: which content file is which object or part.
// Every change is synced when it returns, in one transaction with those that came at the same time
// (sql/database.h); reads use connections of their own and never wait for it. A change that makes
// contents useless returns them: the caller removes the files and says so with collected().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/mutex.h"
#include "base/result.h"
#include "s3/directory/local_file.h"
#include "s3/directory/record.h"
#include "s3/object_store.h"
#include "sql/database.h"

namespace trainyard::s3 {

using sql::Connection;
using sql::Statement;

struct ObjectRow {
  ObjectInfo info;
  std::string content;      // id of the content file
  std::string upload = {};  // the multipart upload that made it
};

struct PartRow {
  PartInfo info;
  std::string content;
};

using Contents = std::vector<std::string>;

// Of a listing: all of it. SQLite counts with 64 bits and a sign.
inline constexpr std::size_t kNoLimit = std::numeric_limits<std::int64_t>::max();

// A put whose content may not have reached the disk.
struct Unconfirmed {
  std::int64_t number = 0;
  std::string content;
  std::uint64_t size = 0;
  std::string etag;  // the content's MD5
};

// As the members of PutOptions.
struct WriteCondition {
  bool only_if_absent = false;
  std::optional<std::string> only_if_match = {};  // "*": any
  // Asked on the committing thread, perhaps twice: every write waits for it.
  CommitCheck before_visible = {};
};

class Index {
 public:
  static Result<std::unique_ptr<Index>> open(const Path& file);

  Result<std::vector<BucketInfo>> buckets();
  Result<void> require_bucket(const std::string& bucket);
  Result<void> add_bucket(const BucketInfo& bucket);
  Result<Contents> remove_bucket(const std::string& bucket);  // its unfinished uploads go, too

  Result<ObjectRow> object(const std::string& bucket, const std::string& key,
                           Parts parts = Parts::kRead);
  Result<Contents> put_object(const std::string& bucket, const ObjectRow& row,
                              const WriteCondition& condition = {});
  // The same while `meanwhile` syncs the content on the caller's thread: both are durable when it
  // returns. Until then the change stands as unconfirmed beside what it replaces, so that a crash
  // between the two loses neither (index_unconfirmed.cc). When `meanwhile` fails, the change is
  // taken back.
  Result<Contents> put_object_while(const std::string& bucket, const ObjectRow& row,
                                    const WriteCondition& condition,
                                    const std::function<Result<void>()>& meanwhile);
  // What a crash left so, the latest first; and the end of it: kept, or as it was before.
  Result<std::vector<Unconfirmed>> unconfirmed();
  Result<void> confirm(const Unconfirmed& change, bool is_good);
  // For those that would wait for the next transaction.
  Result<void> confirm_all();
  // Of many at once (index_bulk.cc): size and time of each that is there, and all in one
  // transaction.
  Result<std::vector<std::optional<KnownFile>>> known(const std::string& bucket,
                                                      const std::vector<std::string>& keys);
  Result<Contents> put_objects(const std::string& bucket, const std::vector<ObjectRow>& rows);
  Result<void> set_tags(const std::string& bucket, const std::string& key,
                        const std::map<std::string, std::string>& tags);
  Result<Contents> remove_objects(const std::string& bucket, const std::vector<std::string>& keys);
  Result<Contents> remove_object_if(const std::string& bucket, const std::string& key,
                                    const std::string& etag);
  Result<ListPage> list(const std::string& bucket, const ListQuery& query);

  // Empty when there is none; an empty text removes it.
  Result<std::string> setting(const std::string& bucket, const std::string& name);
  Result<void> set_setting(const std::string& bucket, const std::string& name,
                           const std::string& text);

  Result<void> add_upload(const std::string& bucket, const UploadInfo& upload,
                          const PutOptions& options);
  Result<PutOptions> upload(const std::string& bucket, const std::string& key,
                            const std::string& id);
  Result<std::vector<UploadInfo>> uploads(const std::string& bucket, const UploadsAfter& after);
  Result<Contents> put_part(const std::string& upload_id, const PartRow& part);
  Result<std::vector<PartRow>> parts(const std::string& upload_id);
  // Replaces the upload row.upload by the object. kConflict when one of `parts` is no longer there.
  Result<Contents> complete(const std::string& bucket, const ObjectRow& row,
                            const std::vector<PartRow>& parts, const WriteCondition& condition);
  Result<Contents> remove_upload(const std::string& upload_id);
  // Those of which neither the start nor a part is as late as `before`.
  Result<std::vector<std::string>> uploads_silent_since(WallTime before);
  Result<Contents> remove_silent_upload(const std::string& upload_id, WallTime before);

  // The number of the last transaction: while it stays, so does all that has been read since it was
  // asked for. Nothing while one is on its way.
  std::optional<std::uint64_t> version() const {
    const std::uint64_t begun = begun_;
    return ended_ == begun ? std::optional(begun) : std::nullopt;
  }

  // Contents that a change made useless and whose removal a crash may have prevented.
  Result<Contents> garbage();
  // Those files are gone; forgotten with the next change that is made.
  void collected(const Contents& contents);
  // Which of `contents` objects or parts still use.
  Result<std::set<std::string>> used(const std::set<std::string>& contents);

 private:
  using Replacement = std::function<Result<void>(Connection&, Contents& dropped)>;
  using Reader = sql::Database::Reader;
  struct Settled {
    std::string content;
    bool is_good = false;
  };

  Index() = default;

  Result<void> change(const sql::Change& body) { return database_->write(body); }
  Result<Contents> replace(const Replacement& body);
  Result<Reader> reader() { return database_->reader(); }
  Result<void> forget(Connection& connection);
  void forgotten();

  // Transactions. One that failed has begun for ever, until a later one ends.
  std::atomic<std::uint64_t> begun_ = 0;
  std::atomic<std::uint64_t> ended_ = 0;

  Mutex mutex_;
  // Done with the next transaction that is kept: contents that are removed are forgotten, puts
  // whose sync has ended are settled. The first `...ing` of them are in the running one.
  Contents collected_ GUARDED_BY(mutex_);
  std::size_t collecting_ GUARDED_BY(mutex_) = 0;
  std::vector<Settled> settled_ GUARDED_BY(mutex_);
  std::size_t settling_ GUARDED_BY(mutex_) = 0;

  std::unique_ptr<sql::Database> database_;  // last: its thread uses the others
};

}  // namespace trainyard::s3
