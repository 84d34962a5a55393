// SPDX-License-Identifier: Apache-2.0
// The server's own object store: an SQLite index that says what exists, and immutable content files
// named by random identifiers, so that every S3 key works byte for byte and no key ever becomes a
// path. The store's one process owns `root` (a lock file says so). Calls block on the disk and may
// come from any thread.
//
//   <root>/index.db            buckets, objects, uploads, parts, contents to remove
//   <root>/incoming/<id>       being written, or written and not yet in the index; see
//                              content_batch.h for the names of imports
//   <root>/data/<2 hex>/<id>   contents that the index names
//   <root>/pins                locked by who copies the store (kept_back.h)
//
// A content above 4 MiB is written and synced first and named in the index last, in one synced
// transaction; a smaller one is synced at the same time as that transaction, beside a record of
// what it replaces. A crash before the index leaves only an incoming file, which open() removes;
// after it, open() judges the record by the content.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/random.h"
#include "s3/directory/local_file.h"
#include "s3/object_store.h"

namespace trainyard::s3 {

class DirectoryStore final : public ObjectStore {
 public:
  // Creates `root` when it is missing. kConflict when another process has it open. An interrupted
  // put whose content cannot be read is an error, not a put that is taken back. `clock` and
  // `random` (used from many threads) are borrowed for life.
  static Result<std::unique_ptr<DirectoryStore>> open(const Path& root, Clock& clock,
                                                      Random& random);
  ~DirectoryStore() override;

  Result<std::vector<BucketInfo>> list_buckets() override;
  Result<void> create_bucket(const std::string& bucket) override;
  Result<void> delete_bucket(const std::string& bucket) override;
  Result<void> head_bucket(const std::string& bucket) override;

  Result<ObjectInfo> put(const std::string& bucket, const std::string& key, const ByteSource& body,
                         const PutOptions& options) override;
  Result<std::unique_ptr<ObjectReader>> get(const std::string& bucket, const std::string& key,
                                            std::optional<ByteRange> range) override;
  Result<ObjectInfo> head(const std::string& bucket, const std::string& key) override;
  Result<ObjectInfo> head_with_parts(const std::string& bucket, const std::string& key) override;
  Result<void> remove(const std::string& bucket, const std::string& key) override;
  Result<void> remove_all(const std::string& bucket, const std::vector<std::string>& keys) override;
  Result<ListPage> list(const std::string& bucket, const ListQuery& query) override;
  Result<ObjectInfo> copy(const std::string& from_bucket, const std::string& from_key,
                          const std::string& bucket, const std::string& key,
                          const std::optional<PutOptions>& replace) override;

  Result<std::string> create_upload(const std::string& bucket, const std::string& key,
                                    const PutOptions& options) override;
  Result<PartInfo> put_part(const std::string& bucket, const std::string& key, const PartId& part,
                            const ByteSource& body, const PutOptions& options) override;
  // Asked again after it succeeded, it answers with the object that it made.
  Result<ObjectInfo> complete_upload(const std::string& bucket, const std::string& key,
                                     const std::string& upload_id,
                                     const std::vector<PartInfo>& parts) override;
  Result<ObjectInfo> complete_upload_if(const std::string& bucket, const std::string& key,
                                        const std::string& upload_id,
                                        const std::vector<PartInfo>& parts,
                                        const CompleteOptions& options) override;
  Result<void> abort_upload(const std::string& bucket, const std::string& key,
                            const std::string& upload_id) override;
  Result<std::vector<PartInfo>> list_parts(const std::string& bucket, const std::string& key,
                                           const std::string& upload_id) override;
  Result<std::vector<UploadInfo>> list_uploads(const std::string& bucket,
                                               const std::string& prefix) override;
  Result<std::vector<UploadInfo>> list_uploads_after(const std::string& bucket,
                                                     const UploadsAfter& after) override;

  Result<void> remove_if(const std::string& bucket, const std::string& key,
                         const std::string& etag) override;
  Result<void> set_tags(const std::string& bucket, const std::string& key,
                        const std::map<std::string, std::string>& tags) override;
  Result<std::string> bucket_setting(const std::string& bucket, const std::string& name) override;
  Result<void> set_bucket_setting(const std::string& bucket, const std::string& name,
                                  const std::string& text) override;

  // All that `files` gives becomes objects, durable with one sync, or as many as there were when
  // `watch` stopped it. A file that changes while it is read is refused. kExhausted and other
  // errors of the store itself leave none of them. May run for several batches at once.
  Result<AdoptedFiles> adopt_files(const std::string& bucket, const LocalFiles& files,
                                   const AdoptWatch& watch = {});
  // For each of `keys` the object of that name; empty where there is none.
  Result<std::vector<std::optional<KnownFile>>> find_known(const std::string& bucket,
                                                           const std::vector<std::string>& keys);

  // Aborts the uploads of which nothing was heard since `before`, and says how many. Told to stop,
  // it leaves the others for the next time.
  Result<std::size_t> expire_uploads(WallTime before, const std::stop_token& stop = {});

  // Removes the files of replaced and deleted objects that had to stay while the store was copied,
  // and says how many. None while it is.
  std::size_t collect_kept(const std::stop_token& stop = {});

  // Whether a path is the store's own folder or lies in it, whatever links lead there.
  bool holds(const Path& path) const;

 private:
  struct State;
  explicit DirectoryStore(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace trainyard::s3
