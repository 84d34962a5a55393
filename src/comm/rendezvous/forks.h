// SPDX-License-Identifier: Apache-2.0
// What fork() means to a rank. A child that goes on without exec, as the workers of PyTorch's data
// loaders do, has a copy of every socket: it would stay open when the rank dies, and nobody would
// hear of the death. And it has the objects of communicators, but none of their threads. So the
// connections that tell of a death are taken from the child before fork() returns in it, and a
// communicator knows whether it is in the process that made it. Both are state of the process:
// handlers of fork() get no argument.
#pragma once

#include <cstdint>
#include <utility>

#include "base/fd.h"

namespace trainyard::comm {

// While it lives, a descriptor is kept from children: there its number leads to /dev/null. For
// numbers below kMaxFd; it ends before the descriptor is closed.
class KeptFromChildren {
 public:
  static constexpr int kMaxFd = 65536;

  KeptFromChildren() = default;
  explicit KeptFromChildren(int fd);
  ~KeptFromChildren();
  KeptFromChildren(KeptFromChildren&& other) noexcept;
  KeptFromChildren& operator=(KeptFromChildren&& other) noexcept;

 private:
  int fd_ = -1;
};

// A descriptor that children have no part in, wherever it is handed on.
class PrivateFd {
 public:
  PrivateFd() = default;
  explicit PrivateFd(Fd fd) : fd_(std::move(fd)), kept_(fd_.get()) {}
  PrivateFd(PrivateFd&&) noexcept = default;
  // The other one takes what this one had: a number that is closed may be another's.
  PrivateFd& operator=(PrivateFd&& other) noexcept;

  int get() const { return fd_.get(); }
  bool is_open() const { return fd_.is_open(); }

 private:
  Fd fd_;
  KeptFromChildren kept_;  // ends first
};

// How many forks lie between this process and the one that first asked, or kept a descriptor.
std::uint32_t forks_so_far();

}  // namespace trainyard::comm
