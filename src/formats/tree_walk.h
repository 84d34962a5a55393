// SPDX-License-Identifier: Apache-2.0
// Visits a directory tree for what archives or uploads it: every entry below the top, directories
// before what they hold, in the order of the names' bytes. It goes by descriptors and follows no
// link, so that a tree which changes meanwhile cannot lead it elsewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <sys/stat.h>

#include "base/file.h"
#include "base/result.h"
#include "formats/left_out.h"

namespace trainyard {

struct TreeEntry {
  std::string name = {};  // from the top, without "./"
  mode_t mode = 0;        // type and permissions
  std::uint64_t size = 0;
  timespec modified = {};
  std::string link_target = {};
  Fd fd = {};  // of a regular file, for reading
};

Error changed_while_read(const std::string& name);
// Whether next() has met what no archive may hold, and the walk may go on behind it.
bool is_unfit(const Error& error);

class TreeWalk {
 public:
  static Result<TreeWalk> open(const Path& top);

  // Empty at the end. kInvalidArgument for what no archive may hold: subject "link" for a link that
  // leaves the tree, "type" for pipes, sockets and devices, "depth" for a directory whose content
  // lies too deep.
  Result<std::optional<TreeEntry>> next();

 private:
  struct Level {
    Fd fd;
    std::string prefix;              // "" or "a/b/"
    std::vector<std::string> names;  // sorted backwards: the next is the last
  };

  Result<void> enter(Fd fd, std::string prefix);
  Result<TreeEntry> visit(const std::string& leaf);
  Result<void> read_link(int parent, const std::string& leaf, TreeEntry& entry);

  std::vector<Level> levels_;
};

// Calls `take` for each entry below `top`; what no archive may hold is added to `left_out`.
Result<void> walk_tree(const Path& top, LeftOut& left_out,
                       const std::function<Result<void>(const TreeEntry&)>& take);

}  // namespace trainyard
