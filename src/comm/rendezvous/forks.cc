// SPDX-License-Identifier: Apache-2.0
#include "comm/rendezvous/forks.h"

#include <array>
#include <atomic>
#include <mutex>
#include <utility>

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

namespace trainyard::comm {
namespace {

constexpr std::size_t kBits = 64;

// Nothing here is ever destroyed, and the child only calls what a signal handler may.
constinit std::mutex mutex;  // held during a fork: no descriptor changes hands meanwhile
constinit std::array<std::uint64_t, KeptFromChildren::kMaxFd / kBits> kept = {};
constinit std::atomic<std::uint32_t> forks = 0;

void set(int fd, bool is_kept) {
  if (fd < 0 || fd >= KeptFromChildren::kMaxFd) {
    return;
  }
  const auto index = static_cast<std::size_t>(fd);
  const std::uint64_t bit = std::uint64_t{1} << (index % kBits);
  const std::scoped_lock lock(mutex);
  kept[index / kBits] = is_kept ? kept[index / kBits] | bit : kept[index / kBits] & ~bit;
}

void before_fork() {
  mutex.lock();
}

void in_parent() {
  mutex.unlock();
}

// The number stays taken: who closes it in the child, later, closes nothing else.
void in_child() {
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (std::size_t word = 0; word < kept.size(); ++word) {
    for (std::uint64_t left = kept[word]; left != 0; left &= left - 1) {
      const auto fd = static_cast<int>(word * kBits + static_cast<unsigned>(__builtin_ctzll(left)));
      if (nothing < 0 || ::dup3(nothing, fd, O_CLOEXEC) < 0) {
        ::close(fd);
      }
    }
    kept[word] = 0;
  }
  if (nothing >= 0) {
    ::close(nothing);
  }
  forks.fetch_add(1, std::memory_order_relaxed);
  mutex.unlock();
}

// From now on, once.
void watch() {
  static const int status = ::pthread_atfork(before_fork, in_parent, in_child);
  static_cast<void>(status);  // without memory for it children keep what they get
}

}  // namespace

KeptFromChildren::KeptFromChildren(int fd) : fd_(fd) {
  watch();
  set(fd_, true);
}

KeptFromChildren::~KeptFromChildren() {
  set(fd_, false);
}

KeptFromChildren::KeptFromChildren(KeptFromChildren&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}

KeptFromChildren& KeptFromChildren::operator=(KeptFromChildren&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

PrivateFd& PrivateFd::operator=(PrivateFd&& other) noexcept {
  std::swap(fd_, other.fd_);
  kept_ = std::move(other.kept_);
  return *this;
}

std::uint32_t forks_so_far() {
  watch();
  return forks.load(std::memory_order_relaxed);
}

}  // namespace trainyard::comm
