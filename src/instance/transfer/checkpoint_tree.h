// SPDX-License-Identifier: Apache-2.0
// Looks at the checkpoint directory of a running job, which user code changes at the same time and
// may have filled with anything. No link is ever followed on the way to a file; a link to a regular
// file inside the tree counts as that file. Everything else that is no regular file is named with
// the reason why it is left out. Calls may come from several threads.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "instance/transfer/checkpoint_place.h"

namespace trainyard::instance {

// What tells one content of a path from the next. A rename gives another inode; a hard link or a
// change of mode changes nothing here.
struct FileState {
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::uint64_t inode = 0;

  bool operator==(const FileState&) const = default;
};

// Something that cannot be mirrored.
struct Oddity {
  std::string path;
  std::string why;
};

struct TreeScan {
  std::map<std::string, FileState> files;  // by path below the root
  std::vector<std::string> directories;    // those that were read, parents first; "" is the root
  std::vector<Oddity> oddities;
  bool is_whole = true;  // false: a directory could not be read, so a missing file proves nothing
};

class CheckpointTree {
 public:
  explicit CheckpointTree(CheckpointPlace place) : place_(std::move(place)) {}

  const CheckpointPlace& place() const { return place_; }

  // Everything at or below the directory `below`.
  TreeScan scan(const std::string& below = {}) const;
  // One file: kNotFound when there is none, kInvalidArgument with the reason for an oddity.
  Result<FileState> look(const std::string& path) const;
  // For reading; errors as look(). Never blocks, whatever lies there.
  Result<Fd> open(const std::string& path) const;
  Result<Fd> open_directory(const std::string& path) const;

 private:
  void read_directory(const std::string& path, TreeScan& scan,
                      std::vector<std::string>& waiting) const;
  void take(int directory, const std::string& path, TreeScan& scan,
            std::vector<std::string>& waiting) const;
  Result<std::string> target_of(int directory, const std::string& path) const;

  CheckpointPlace place_;
};

Result<FileState> state_of(int fd);

// Whether any process has the file open for writing, or mapped so, by a lease that is given back at
// once. `fd` is for reading only. Nothing where the file system has no leases. In the microseconds
// between, open(O_NONBLOCK) for writing fails with EWOULDBLOCK, any other waits for them.
std::optional<bool> is_open_for_writing(int fd);

// Opens root/path component by component, following no link anywhere below `root`.
Result<Fd> open_beneath(const Path& root, std::string_view path, int flags);

}  // namespace trainyard::instance
