// SPDX-License-Identifier: Apache-2.0
// The bytes of a DirectoryStore: files that are written once, synced, published under a random name
// and never changed. Knows nothing of keys; the index says which file is what.
//
// The name of a file must be on the disk before the index speaks of it, and syncing a folder costs
// as much as syncing a file. So names are made ahead, many for one sync: blanks, which are empty
// files data/<2 hex>/<id>. A name in incoming/ stands for all of them, and is there as long as one
// is left: the first half of their ids (content_batch.h has the form). A blank that is never used
// goes when the store is closed, or, after a crash, when it is opened. A busy store has a thread
// that makes blanks before they are missed.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/file.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/result.h"
#include "s3/checksum.h"
#include "s3/directory/kept_back.h"
#include "s3/object_store.h"

namespace trainyard::s3 {

// As errno_error, for the store's own files; subject "disk". What the disk denies or finds wrong is
// no answer to a client that may do it: kInternal, but for kNotFound, kExhausted and kUnavailable.
// A lack of file descriptors passes: kUnavailable.
Error disk_error(std::string_view what, int errno_value);

// Brings the bytes of a content and its length to the disk; its times are nobody's.
Result<void> sync_content(int fd);

// A name in incoming/, until the last of the drafts that it stands for has gone.
class Marker {
 public:
  // An empty file; its name is durable once its folder is synced.
  static Result<std::shared_ptr<const Marker>> make(Path path);
  ~Marker();
  Marker(const Marker&) = delete;
  Marker& operator=(const Marker&) = delete;
  void stay() const { stays_ = true; }  // until the next start

 private:
  explicit Marker(Path path) : path_(std::move(path)) {}

  const Path path_;
  mutable std::atomic<bool> stays_ = false;
};

// A content on its way into the index, whose name is durable, as is that of its marker. Unless
// keep() or leave() is called it leaves nothing behind.
class Draft {
 public:
  Draft(Path published, std::shared_ptr<const Marker> marker, Fd fd)
      : published_(std::move(published)), marker_(std::move(marker)), fd_(std::move(fd)) {}
  Draft(Draft&& other) noexcept = default;
  Draft& operator=(Draft&&) = delete;
  ~Draft();

  std::string id() const { return published_.filename(); }
  int fd() const { return fd_.get(); }

  // Syncs the bytes. The marker stays until the draft goes: after a crash it says whom to look for.
  Result<void> publish();
  // The index names it now.
  void keep() { kept_ = true; }
  // The index may name it: nobody knows. It stays until the next start has looked.
  void leave();

 private:
  Path published_;
  std::shared_ptr<const Marker> marker_;  // with other drafts; null once moved from
  Fd fd_;
  bool kept_ = false;
};

class ContentFiles {
 public:
  // Makes every folder of data/ that is not there: then no content waits for its folder's name.
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

  Result<Fd> open_content(const std::string& content) const;  // kNotFound
  // Readers that have it open keep their bytes. A missing one is a success.
  Result<void> remove(const std::string& content) const;
  // What the index has let go is removed only when this says so.
  KeptBack& kept_back() { return kept_back_; }

  // What a crash left in incoming/, and its removal there.
  Result<std::vector<std::string>> incoming() const;
  void forget_incoming(const std::string& content) const;

  Path published_path(const std::string& content) const;
  const Path& root() const { return root_; }

 private:
  ContentFiles(Path root, Random& random, Fd pins)
      : root_(std::move(root)), random_(random), kept_back_(std::move(pins)) {}
  Path incoming_path(const std::string& content) const { return root_ / "incoming" / content; }
  // At least one; fewer than `count` when something prevents more.
  Result<std::vector<Draft>> make_blanks(std::size_t count);
  Result<void> make_more();
  std::optional<Draft> take_blank();
  void start_working_ahead();
  void work_ahead(const std::stop_token& stop);

  Path root_;
  Random& random_;
  KeptBack kept_back_;

  Mutex making_;  // held while blanks are made: who needs one waits for the same sync
  std::size_t next_batch_ GUARDED_BY(making_) = 2;

  Mutex mutex_;
  ConditionVariable running_low_;
  std::vector<Draft> blanks_ GUARDED_BY(mutex_);
  std::jthread ahead_;  // once the store is busy; last: it uses the others
};

}  // namespace trainyard::s3
