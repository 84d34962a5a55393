// SPDX-License-Identifier: Apache-2.0
// Walks the files below a folder in the order of their names as keys (bytes, "a-b" before "a/b"),
// so that an index takes them page by page. Reads a folder at a time and no file. Follows no link
// to a folder. Folders of Trainyard's own are left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "base/fd.h"
#include "base/result.h"

namespace trainyard::s3 {

class FolderWalk {
 public:
  enum class Kind : std::uint8_t { kFile, kLink, kFolder, kSpecial };

  struct Entry {
    std::string name;  // relative to the folder
    Kind kind = Kind::kFile;
  };
  // Called with what is left out ("sub/" for a folder) and why.
  using Refuse = std::function<void(const std::string& name, std::string_view why)>;
  // Why a folder is not walked, other than by its entries; empty: it is. The folder is open.
  using Exclude = std::function<std::string_view(int folder)>;

  // `folder` is borrowed for life.
  FolderWalk(int folder, Exclude exclude, Refuse refuse);

  // The next file or link; empty behind the last. An error only when the folder itself cannot be
  // read; kInvalidArgument, subject "folder", when it is itself one to be left out.
  Result<std::optional<Entry>> next();

 private:
  struct Item {
    std::size_t at = 0;  // in Level::names
    std::uint16_t size = 0;
    Kind kind = Kind::kFile;
  };
  // A folder on the way down: its entries in order, names in one text, for there may be a million.
  struct Level {
    std::string path;  // "" or "sub/"
    std::string names = {};
    std::vector<Item> items = {};
    std::size_t next = 0;

    std::string_view name_of(const Item& item) const {
      return std::string_view(names).substr(item.at, item.size);
    }
    bool has(std::string_view name, Kind kind) const;
  };

  Result<void> enter(const std::string& path);
  // Why the folder is left out; empty: it was read.
  Result<std::string> read(Level& level) const;
  static Result<void> list(const Fd& folder, Level& level);

  const int folder_;
  const Exclude exclude_;
  const Refuse refuse_;
  bool has_begun_ = false;
  std::vector<Level> levels_;
};

}  // namespace trainyard::s3
