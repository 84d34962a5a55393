// SPDX-License-Identifier: Apache-2.0
// The plain files of one directory tree, for those who copy or check it: a folder, a pipe or a
// device in the place of a file is an error, and never makes the reader wait.
#pragma once

#include <cstdint>

#include "base/fd.h"
#include "base/file.h"
#include "base/result.h"

namespace trainyard::server {

// A home is of who runs the server, and its links lead where he wants: the objects to another disk,
// a certificate to the folder of the program that renews it. A backup may come from anybody: a link
// anywhere in it would make a file of this machine a part of the new home.
enum class Links { kFollowed, kRefused };

// Names are relative to the tree. kNotFound when nothing is there; kCorrupt when that is no plain
// file, or lies behind a link that is refused.
class PlainFiles {
 public:
  static Result<PlainFiles> open(const Path& root, Links links);

  const Path& root() const { return root_; }
  Result<Fd> open_plain(const Path& name) const;  // to be read
  // Asks without opening: to close any descriptor of a database would drop the locks that this
  // process has on it (POSIX).
  Result<std::uint64_t> size_of(const Path& name) const;

 private:
  PlainFiles(Path root, Fd fd, Links links)
      : root_(std::move(root)), fd_(std::move(fd)), links_(links) {}
  Result<Fd> find(const Path& name, int flags) const;

  Path root_;
  Fd fd_;
  Links links_;
};

}  // namespace trainyard::server
