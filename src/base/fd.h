// SPDX-License-Identifier: Apache-2.0
// An owned file descriptor and the few calls that every module makes on one. Reads and writes retry
// EINTR and short transfers.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace trainyard {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd() { reset(); }

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset();

 private:
  int fd_ = -1;
};

struct Pipe {
  Fd read_end;
  Fd write_end;
};

Result<Pipe> make_pipe();  // both ends close on exec

// Bytes read, 0 at the end of file. May be fewer than asked.
Result<std::size_t> read_some(int fd, std::span<std::byte> out);
Result<std::size_t> read_at(int fd, std::span<std::byte> out, std::size_t offset);
Result<void> write_all(int fd, std::span<const std::byte> bytes);
Result<void> write_all(int fd, std::string_view text);
// What is left of file `from` goes to where file `to` stands; inside the kernel where it can.
Result<void> copy_rest(int from, int to);

}  // namespace trainyard
