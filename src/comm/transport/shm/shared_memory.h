// SPDX-License-Identifier: Apache-2.0
// Anonymous memory that several processes map: a memfd without a name in any file system, gone with
// the last process that holds or maps it. The segment of a host's ranks and the heaps of their
// buffers are made of it. Its size is sealed, so that no holder can take pages away from under the
// others.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "base/fd.h"
#include "base/result.h"

namespace trainyard::comm {

class SharedMemory {
 public:
  // Zero, of `bytes` rounded up to whole pages, closed on exec. `name` shows in /proc/<pid>/maps.
  // kInvalidArgument for 0 bytes; kExhausted when there is no memory.
  static Result<SharedMemory> create(const char* name, std::size_t bytes);
  // What another process created, all of it. kInvalidArgument when its size is not sealed.
  static Result<SharedMemory> map(Fd fd);

  SharedMemory(SharedMemory&& other) noexcept
      : fd_(std::move(other.fd_)), bytes_(std::exchange(other.bytes_, {})) {}
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  std::span<std::byte> bytes() const { return bytes_; }
  int fd() const { return fd_.get(); }  // to pass on; -1 after close_fd()
  void close_fd() { fd_.reset(); }      // the mapping stays

  // From now on what this process writes there is seen by nobody else, and what others write does
  // not change a page that this process has written to. The content stays; threads that use it
  // meanwhile notice nothing. Needs the descriptor. After kExhausted all is as it was.
  Result<void> make_private() const;

  // Makes all pages present in this process now, instead of one fault each. Best effort.
  void populate() const;

 private:
  SharedMemory(Fd fd, std::span<std::byte> bytes) : fd_(std::move(fd)), bytes_(bytes) {}

  Fd fd_;
  std::span<std::byte> bytes_;
};

}  // namespace trainyard::comm
