// SPDX-License-Identifier: Apache-2.0
#include "base/fd.h"

#include <cerrno>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "base/check.h"

namespace trainyard {
namespace {

// One system call's worth, so that no call runs for seconds.
constexpr std::size_t kCopyStep = std::size_t{64} << 20;
constexpr std::size_t kCopyBuffer = std::size_t{256} << 10;

Result<void> copy_by_hand(int from, int to) {
  std::vector<std::byte> buffer(kCopyBuffer);
  while (true) {
    YARD_TRY(const std::size_t got, read_some(from, buffer));
    if (got == 0) {
      return {};
    }
    YARD_TRY(write_all(to, std::span(buffer).first(got)));
  }
}

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

void Fd::reset() {
  if (fd_ < 0) {
    return;
  }
  // Linux frees the number even when close() reports EINTR or EIO, so it is never called twice.
  // EBADF means that somebody else closed our descriptor, and the next time it might be another's.
  const bool closed = close(std::exchange(fd_, -1)) == 0 || errno != EBADF;
  YARD_CHECK(closed, "a descriptor was closed twice");
}

Result<Pipe> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return errno_error("pipe", errno);
  }
  return Pipe{.read_end = Fd(ends[0]), .write_end = Fd(ends[1])};
}

Result<std::size_t> read_some(int fd, std::span<std::byte> out) {
  for (;;) {
    const ssize_t got = read(fd, out.data(), out.size());
    if (got >= 0) {
      return static_cast<std::size_t>(got);
    }
    if (errno != EINTR) {
      return errno_error("read", errno);
    }
  }
}

Result<std::size_t> read_at(int fd, std::span<std::byte> out, std::size_t offset) {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got =
        pread(fd, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (got == 0) {
      break;
    }
    if (got > 0) {
      done += static_cast<std::size_t>(got);
    } else if (errno != EINTR) {
      return errno_error("pread", errno);
    }
  }
  return done;
}

Result<void> write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = write(fd, bytes.data(), bytes.size());
    if (put >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(put));
    } else if (errno != EINTR) {
      return errno_error("write", errno);
    }
  }
  return {};
}

Result<void> write_all(int fd, std::string_view text) {
  return write_all(fd, std::as_bytes(std::span(text)));
}

Result<void> copy_rest(int from, int to) {
  while (true) {
    const ssize_t copied = ::copy_file_range(from, nullptr, to, nullptr, kCopyStep, 0);
    if (copied == 0) {
      return {};
    }
    if (copied < 0 && errno != EINTR) {
      // Old kernels and some file systems refuse; both offsets are where the last copy ended.
      return errno == EXDEV || errno == EINVAL || errno == EOPNOTSUPP || errno == ENOSYS
                 ? copy_by_hand(from, to)
                 : Result<void>(errno_error("copying a file", errno));
    }
  }
}

}  // namespace trainyard
