// SPDX-License-Identifier: Apache-2.0
// Opens the files of a folder that is imported: plain files at once, links after a look at what
// they stand for. May be used from many threads.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <sys/stat.h>

#include "base/fd.h"
#include "base/result.h"
#include "s3/adopt/folder_walk.h"
#include "s3/directory/directory_store.h"

namespace trainyard::s3 {

class AdoptSource {
 public:
  // kInvalidArgument, subject "folder", when it is part of the store, or itself a Trainyard home or
  // store. `store` is borrowed for life.
  static Result<AdoptSource> open(const DirectoryStore& store, const Path& folder);

  int folder() const { return folder_.get(); }
  // Why this open folder is not walked; empty: it is.
  std::string_view exclude(int folder) const;

  struct File {
    Fd fd;
    struct stat status {};
  };
  // An error says why it is left out.
  Result<File> open(const FolderWalk::Entry& entry) const;
  // Without opening it; empty when its status cannot be read.
  std::optional<KnownFile> look_at(const FolderWalk::Entry& entry) const;

 private:
  AdoptSource(const DirectoryStore& store, Fd folder)
      : store_(&store), folder_(std::move(folder)) {}
  Result<Fd> open_link(const std::string& name) const;
  bool is_in_a_home(const Path& target) const;

  const DirectoryStore* store_;
  Fd folder_;
};

}  // namespace trainyard::s3
