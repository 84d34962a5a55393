// SPDX-License-Identifier: Apache-2.0
// Many contents at once, for an import: a file system call or two for each instead of the four
// names and syncs that a put costs. One name in incoming/, the first half of all their ids, stands
// for all of them: after a crash it says whom to look for. One sync of the file system ends the
// batch.
//
//   <root>/incoming/<24 hex>            the batch
//   <root>/data/<2 hex>/<24 + 8 hex>    its contents; the 2 are the first of the 24
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/random.h"
#include "base/result.h"
#include "s3/directory/content_files.h"
#include "s3/directory/local_file.h"

namespace trainyard::s3 {

// Unless keep() or leave() is called it leaves nothing behind. One thread.
class ContentBatch {
 public:
  // `files` is borrowed for life. The batch's own name is durable when this returns.
  static Result<std::unique_ptr<ContentBatch>> begin(const ContentFiles& files, Random& random);
  ~ContentBatch();
  ContentBatch(const ContentBatch&) = delete;
  ContentBatch& operator=(const ContentBatch&) = delete;

  struct Taken {
    std::string id;
    std::string md5_hex;
    bool shared = false;  // by reflink or hard link
  };
  // Takes the whole file, which `file.fd` stands at the beginning of. kConflict when it is not, or
  // does not stay, what `file` says; kCancelled when `watch` stops it; subject "disk" for errors of
  // the store.
  Result<Taken> take(const LocalFile& file, const AdoptWatch& watch);

  // Brings all of it to the disk. An error says that any write since begin() may have failed: the
  // kernel tells a descriptor of those that came after it was opened.
  Result<void> sync() const;

  // The index names them now, durably; sync() came before.
  void keep() { kept_ = true; }
  // The index may name them: nobody knows. They stay until the next start has looked.
  void leave() { kept_ = left_ = true; }

 private:
  ContentBatch(const ContentFiles& files, std::string name);
  Result<void> open(const Path& root);
  Result<Taken> fill(const LocalFile& file, const AdoptWatch& watch, Taken blank);
  // The MD5 of all bytes from where `from` stands; they are written to `to`, unless it is negative.
  Result<std::string> pass(int from, int to, const LocalFile& file, const AdoptWatch& watch) const;

  const Path marker_;
  const std::string name_;
  Fd folder_;  // data/<2 hex>
  std::unique_ptr<std::byte[]> buffer_;
  std::uint32_t count_ = 0;
  std::vector<std::string> ids_;
  bool can_reflink_ = true;
  bool kept_ = false;
  bool left_ = false;  // with its marker
};

// Whether a name in incoming/ is that of a batch, and which contents it stands for.
bool is_batch(const std::string& incoming);
Result<std::vector<std::string>> contents_of_batch(const ContentFiles& files,
                                                   const std::string& name);

}  // namespace trainyard::s3
