// SPDX-License-Identifier: Apache-2.0
// What is mounted where, in particular below a directory, and taking that away, so that the
// directory can be removed without emptying somebody's file system.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace trainyard::sandbox {

// A line of a mountinfo file. Source: Linux, Documentation/filesystems/proc.rst, section 3.5.
struct Mount {
  std::string root;                  // what of its file system is mounted: "/" is all
  Path point;                        // where
  std::string type;                  // "tmpfs"
  std::vector<std::string> options;  // of the file system, not of this mount
};

// In the order of the text, in which a mount follows the one that it lies on. Lines that are none
// are left out.
std::vector<Mount> parse_mountinfo(std::string_view mountinfo);

// The mount points at or below `directory` in the text of a mountinfo file, the deepest last.
std::vector<Path> mounts_below(std::string_view mountinfo, const Path& directory);

// Unmounts them, the deepest first, lazily: a busy one disappears from here at once.
Result<void> unmount_below(const Path& directory);

}  // namespace trainyard::sandbox
