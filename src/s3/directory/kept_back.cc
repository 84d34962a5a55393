// SPDX-License-Identifier: Apache-2.0
#include "s3/directory/kept_back.h"

#include <algorithm>
#include <cerrno>
#include <iterator>

#include <fcntl.h>

namespace trainyard::s3 {
namespace {

// Of the open file, not of the process (fcntl(2)): closing another descriptor of it loses nothing.
struct flock whole_file(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

Result<void> pin_contents(const Fd& pins) {
  struct flock lock = whole_file(F_RDLCK);
  return ::fcntl(pins.get(), F_OFD_SETLK, &lock) == 0
             ? Result<void>()
             : Error{Code::kUnavailable, errno_error("pinning the contents", errno).message};
}

bool KeptBack::is_pinned() const {
  struct flock lock = whole_file(F_WRLCK);
  return ::fcntl(pins_.get(), F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

std::vector<std::string> KeptBack::let_go(std::vector<std::string> useless,
                                          std::size_t most_others) {
  const MutexLock lock(mutex_);
  if (useless.empty() && kept_.empty()) {
    return {};
  }
  // Not before the lock: others may be kept since.
  if (is_pinned()) {
    std::ranges::move(useless, std::back_inserter(kept_));
    return {};
  }
  const auto others =
      kept_.end() - static_cast<std::ptrdiff_t>(std::min(most_others, kept_.size()));
  std::move(others, kept_.end(), std::back_inserter(useless));
  kept_.erase(others, kept_.end());
  return useless;
}

}  // namespace trainyard::s3
