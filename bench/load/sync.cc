// SPDX-License-Identifier: Apache-2.0
#include "bench/load/sync.h"

#include <cerrno>
#include <cstdint>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/file.h"

namespace trainyard::load {
namespace {

Result<void> sync_file(const Path& path) {
  YARD_TRY(const Fd fd, open_file(path, O_RDONLY));
  if (::fsync(fd.get()) != 0) {
    return errno_error("cannot sync " + path.string(), errno);
  }
  return sync_directory(path.parent_path());
}

}  // namespace

Result<void> Syncer::open() {
  event_ = Fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  return event_.is_open() ? Result<void>() : errno_error("eventfd", errno);
}

void Syncer::sync(std::size_t tag, const std::string& path) {
  pool_.post([this, tag, file = Path(root_ + path)] {
    Result<void> outcome = sync_file(file);
    {
      const MutexLock lock(mutex_);
      done_.emplace_back(tag, std::move(outcome));
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t told = ::write(event_.get(), &one, sizeof(one));
  });
}

std::vector<std::pair<std::size_t, Result<void>>> Syncer::take() {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t read = ::read(event_.get(), &count, sizeof(count));
  const MutexLock lock(mutex_);
  return std::exchange(done_, {});
}

}  // namespace trainyard::load
