// SPDX-License-Identifier: Apache-2.0
// A file in which a process shows itself to others, and which goes when the process does: its owner
// holds it locked (flock), so that whoever comes later to the same folder can tell the files of
// dead processes and removes them. Nobody sees one that is not locked yet.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/fd.h"
#include "base/file.h"
#include "base/result.h"
#include "comm/rendezvous/forks.h"

namespace trainyard::comm {

class StatusFile {
 public:
  // Of so many zero bytes, readable by all; replaces one of the same name. `path` ends in a name
  // that begins with "rank-". Removes those beside it whose processes have ended.
  static Result<StatusFile> make(const Path& path, std::size_t bytes);
  // Removes it, unless it was replaced, and those beside it whose processes have ended.
  ~StatusFile();
  StatusFile(StatusFile&&) = default;
  StatusFile& operator=(StatusFile&&) = delete;

  int fd() const { return fd_.get(); }

 private:
  StatusFile(Path path, Fd fd, Fd lock)
      : path_(std::move(path)), fd_(std::move(fd)), lock_(std::move(lock)), kept_(lock_.get()) {}

  Path path_;
  Fd fd_;
  // Shows that the process lives: another one of the file, for children keep what is mapped by fd_.
  Fd lock_;
  KeptFromChildren kept_;
};

// A file for people in the folder of status files, whole or not there. What is left where the
// process is killed amid this goes with its status file. `path` ends in any other name than those.
Result<void> write_beside_status(const Path& path, std::string_view content);

}  // namespace trainyard::comm
