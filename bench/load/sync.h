// SPDX-License-Identifier: Apache-2.0
// Makes what a server has just written durable in its place: fsync of the file and of its
// directory, on threads, so that the syncs of several connections overlap as they would in a
// server. Owned and called by one thread; fd() becomes readable when there is something to take.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/thread.h"

namespace trainyard::load {

class Syncer {
 public:
  Syncer(std::string root, std::size_t threads) : root_(std::move(root)), pool_("sync", threads) {}

  Result<void> open();
  int fd() const { return event_.get(); }
  // `path` begins with a slash and is below the root; `tag` comes back with the outcome.
  void sync(std::size_t tag, const std::string& path);
  std::vector<std::pair<std::size_t, Result<void>>> take();

 private:
  const std::string root_;
  Fd event_;
  Mutex mutex_;
  std::vector<std::pair<std::size_t, Result<void>>> done_ GUARDED_BY(mutex_);
  WorkerPool pool_;  // joined before the rest goes
};

}  // namespace trainyard::load
