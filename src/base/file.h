// SPDX-License-Identifier: Apache-2.0
// Whole-file operations with the durability that their names promise. Paths are byte strings;
// nothing here follows a final symbolic link when it writes or removes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "base/fd.h"
#include "base/result.h"

namespace trainyard {

using Path = std::filesystem::path;

// open(2) with O_CLOEXEC added.
Result<Fd> open_file(const Path& path, int flags, mode_t mode = 0600);

// Fails with kExhausted when the file is larger than `limit` bytes.
Result<std::string> read_file(const Path& path, std::size_t limit = std::size_t{64} << 20);

// Temporary file beside `path`, fsync, rename, fsync of the directory: after success the new
// content survives power loss, before it the old one is untouched.
Result<void> write_file_durably(const Path& path, std::string_view content, mode_t mode = 0600);

// Write-then-rename without the syncs: readers see the old or the new content, whole.
Result<void> write_file(const Path& path, std::string_view content, mode_t mode = 0644);

// Whether a file of this name is what either of them leaves when its process is killed amid it.
bool is_unfinished_file(std::string_view name);

Result<void> make_directories(const Path& path, mode_t mode = 0755);
Result<void> sync_directory(const Path& path);

// Removes a tree. Refuses to cross into another file system and never follows links, so that a
// mount left inside is reported (kConflict, naming it), not emptied. A missing tree is a success.
Result<void> remove_tree(const Path& path);

// A new directory `<parent>/<prefix>XXXXXX`, removed with all it holds at the end of life.
class TempDir {
 public:
  static Result<TempDir> make(std::string_view prefix = "trainyard-", const Path& parent = {});
  TempDir(TempDir&& other) noexcept;
  TempDir& operator=(TempDir&& other) noexcept;
  ~TempDir();

  const Path& path() const { return path_; }

 private:
  explicit TempDir(Path path) : path_(std::move(path)) {}
  Path path_;
};

// Holds `path` locked (flock) for as long as it lives; kConflict, with the holder's pid, when
// another process has it.
class FileLock {
 public:
  static Result<FileLock> acquire(const Path& path);

 private:
  explicit FileLock(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace trainyard
