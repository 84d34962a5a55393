// SPDX-License-Identifier: Apache-2.0
// The kernel's news of a directory tree (inotify): which files were made, closed by a writer,
// renamed or removed. A watch is a hint that makes the mirror fast, never what it relies on: news
// may be lost, which is told as kLost, and directories may go unwatched when the machine has no
// watches left; the mirror also looks by itself, now and then. One owner.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "instance/transfer/checkpoint_tree.h"

namespace trainyard::instance {

struct TreeNews {
  enum class Kind {
    kMade,     // appeared, and may be still open
    kWritten,  // closed by a writer
    kMovedIn,  // appeared whole
    kGone,     // removed, or moved away
    kLost,     // news are missing: look at everything, and watch it anew
  };
  Kind kind = Kind::kMade;
  std::string path = {};
  bool is_directory = false;
};

class CheckpointWatch {
 public:
  // Fails when the machine has no more instances of inotify.
  static Result<std::unique_ptr<CheckpointWatch>> open(const CheckpointTree& tree);

  int fd() const { return fd_.get(); }  // readable when there are news
  // Watches one directory; once more does no harm. kExhausted when there are no more watches.
  Result<void> add(const std::string& directory);
  bool is_watched(const std::string& directory) const { return watches_.contains(directory); }
  void forget_below(const std::string& directory);  // which is not there any more
  std::vector<TreeNews> take();                     // never waits

 private:
  CheckpointWatch(const CheckpointTree& tree, Fd fd) : tree_(tree), fd_(std::move(fd)) {}
  void take_event(int watch, std::uint32_t mask, const std::string& name,
                  std::vector<TreeNews>& news);

  const CheckpointTree& tree_;
  Fd fd_;
  std::map<int, std::string> directories_;  // by watch
  std::map<std::string, int> watches_;
};

}  // namespace trainyard::instance
