// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/shm/shared_memory.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace trainyard::comm {
namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t whole_pages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

Result<std::span<std::byte>> map_all(int fd, std::size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    return errno_error("mapping shared memory", errno);
  }
  if (bytes >= kHugePage) {
    // Has an effect where the system allows huge pages in shared memory; elsewhere nothing is lost.
    madvise(memory, bytes, MADV_HUGEPAGE);
  }
  return std::span(static_cast<std::byte*>(memory), bytes);
}

}  // namespace

Result<SharedMemory> SharedMemory::create(const char* name, std::size_t bytes) {
  if (bytes == 0) {
    return Error{Code::kInvalidArgument, "shared memory of 0 bytes"};
  }
  Fd fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.is_open()) {
    return errno_error("creating shared memory", errno);
  }
  bytes = whole_pages(bytes);
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return errno_error("sizing shared memory", errno);
  }
  if (fcntl(fd.get(), F_ADD_SEALS, kSizeSeals | F_SEAL_SEAL) != 0) {
    return errno_error("sealing shared memory", errno);
  }
  YARD_TRY(const std::span<std::byte> mapped, map_all(fd.get(), bytes));
  return SharedMemory(std::move(fd), mapped);
}

Result<SharedMemory> SharedMemory::map(Fd fd) {
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSizeSeals) != kSizeSeals) {
    return Error{Code::kInvalidArgument, "not shared memory of a fixed size"};
  }
  struct stat status = {};
  if (fstat(fd.get(), &status) != 0) {
    return errno_error("looking at shared memory", errno);
  }
  YARD_TRY(const std::span<std::byte> mapped,
           map_all(fd.get(), static_cast<std::size_t>(status.st_size)));
  return SharedMemory(std::move(fd), mapped);
}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (!bytes_.empty()) {
    munmap(bytes_.data(), bytes_.size());
  }
}

// The mapping that is there is replaced in one step, and pages are copied when they are written to:
// copies of all at once may be more memory than there is. In place, rather than made elsewhere and
// moved here, because libraries that register memory with a device watch for that.
Result<void> SharedMemory::make_private() const {
  constexpr int kPrivate = MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE;
  constexpr int kAccess = PROT_READ | PROT_WRITE;
  if (mmap(bytes_.data(), bytes_.size(), kAccess, kPrivate, fd(), 0) != MAP_FAILED) {
    return {};
  }
  const int why = errno;
  // Before Linux 6.12 a mapping that is refused may have taken the old one away already.
  const void* const again =
      mmap(bytes_.data(), bytes_.size(), kAccess, MAP_SHARED | MAP_FIXED, fd(), 0);
  return errno_error(again != MAP_FAILED ? "leaving shared memory" : "mapping it again", why);
}

void SharedMemory::populate() const {
#ifdef MADV_POPULATE_WRITE
  madvise(bytes_.data(), bytes_.size(), MADV_POPULATE_WRITE);
#endif
}

}  // namespace trainyard::comm
