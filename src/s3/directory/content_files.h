// SPDX-License-Identifier: Apache-2.0
// The bytes of a DirectoryStore: files that are written once, synced, published under a random name
// and never changed. Knows nothing of keys; the index says which file is what.
//
// The name of a file must be on the disk before the index speaks of it, and syncing a folder costs
// as much as syncing a file. So names are made ahead, many for one sync: blanks, which are empty
// files with both names, incoming/<id> and data/<2 hex>/<id>. A blank that is never used goes when
// the store is closed, or, after a crash, when it is opened: it has an incoming name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/file.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/result.h"
#include "s3/checksum.h"
#include "s3/object_store.h"

namespace trainyard::s3 {

// As errno_error, for the store's own files; subject "disk". What the disk denies or finds wrong is
// no answer to a client that may do it: kInternal, but for kNotFound, kExhausted and kUnavailable.
// A lack of file descriptors passes: kUnavailable.
Error disk_error(std::string_view what, int errno_value);

// Brings the bytes of a content and its length to the disk; its times are nobody's.
Result<void> sync_content(int fd);

// A content on its way into the index, whose two names are durable. Unless keep() is called it
// leaves nothing behind.
class Draft {
 public:
  Draft(Path incoming, Path published, std::string id, Fd fd)
      : incoming_(std::move(incoming)),
        published_(std::move(published)),
        id_(std::move(id)),
        fd_(std::move(fd)) {}
  Draft(Draft&& other) noexcept;
  Draft& operator=(Draft&&) = delete;
  ~Draft();

  const std::string& id() const { return id_; }
  int fd() const { return fd_.get(); }

  // Syncs the bytes. Until the draft goes the incoming name stays: after a crash it says whom to
  // look for.
  Result<void> publish();
  // The index names it now.
  void keep() { kept_ = true; }

 private:
  Path incoming_;
  Path published_;
  std::string id_;
  Fd fd_;
  bool kept_ = false;
};

class ContentFiles {
 public:
  // Errors of the disk are as disk_error() has them.
  static Result<std::unique_ptr<ContentFiles>> open(const Path& root, Random& random);
  ~ContentFiles();  // the blanks go

  Result<Draft> start();
  // Streams `body` into a draft, which is empty, through `digester`. A known `length` is reserved
  // where that tells early of a full disk.
  static Result<void> fill(Draft& draft, const ByteSource& body, Digester& digester,
                           std::optional<std::uint64_t> length = {});
  Result<Draft> write(const ByteSource& body, Digester& digester,
                      std::optional<std::uint64_t> length = {});
  // One new content from all of the others, in order; the kernel copies.
  Result<Draft> concatenate(const std::vector<std::string>& contents);
  // A second name for the same bytes: contents never change, so a copy costs nothing. Already
  // published.
  Result<Draft> duplicate(const std::string& content);

  // The open file itself under both names, which are durable after sync_all(). kUnimplemented on
  // another file system, and where the kernel refuses.
  Result<Draft> link_file(int fd);
  // All that was written to the store's file system before.
  Result<void> sync_all() const;

  Result<Fd> open_content(const std::string& content) const;  // kNotFound
  // Readers that have it open keep their bytes. A missing one is a success.
  Result<void> remove(const std::string& content) const;

  // What a crash left in incoming/, and its removal there.
  Result<std::vector<std::string>> incoming() const;
  void forget_incoming(const std::string& content) const;

  Path published_path(const std::string& content) const;
  const Path& root() const { return root_; }

 private:
  ContentFiles(Path root, Random& random) : root_(std::move(root)), random_(random) {}
  Path incoming_path(const std::string& content) const { return root_ / "incoming" / content; }
  Draft draft_of(const std::string& id, Fd fd) const;
  Result<std::vector<Draft>> make_blanks(std::size_t count);
  // A new id in the folder data/<shard>, which is there.
  Result<std::string> new_id(const std::string& shard);

  Path root_;
  Random& random_;

  Mutex mutex_;  // held while blanks are made: who needs one waits for the same sync
  std::vector<Draft> blanks_ GUARDED_BY(mutex_);
  std::size_t next_batch_ GUARDED_BY(mutex_) = 2;
};

}  // namespace trainyard::s3
