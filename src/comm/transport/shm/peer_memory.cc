// SPDX-License-Identifier: Apache-2.0
#include "comm/transport/shm/peer_memory.h"

#include <cerrno>
#include <string>

#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

namespace trainyard::comm {
namespace {

std::uint64_t own_pid_namespace() {
  struct stat found = {};
  return stat("/proc/self/ns/pid", &found) == 0 ? found.st_ino : 0;
}

}  // namespace

OwnMemory::OwnMemory() : token_(std::make_unique<std::array<std::uint64_t, 2>>()) {
  const auto bytes = static_cast<ssize_t>(sizeof(*token_));
  if (getrandom(token_->data(), sizeof(*token_), 0) == bytes) {
    pid_namespace_ = own_pid_namespace();
  }
}

MemoryCard OwnMemory::card() const {
  return {.pid_namespace = pid_namespace_,
          .pid = static_cast<std::uint64_t>(getpid()),
          .address = reinterpret_cast<std::uint64_t>(token_->data()),
          .token = *token_};
}

bool reaches(const MemoryCard& card) {
  if (card.pid_namespace == 0 || card.pid_namespace != own_pid_namespace()) {
    return false;
  }
  std::array<std::uint64_t, 2> seen = {};
  const auto pid = static_cast<pid_t>(card.pid);
  return read_memory(pid, card.address, std::as_writable_bytes(std::span(seen))) &&
         seen == card.token;
}

bool is_own_readable(std::span<const std::byte> bytes) {
  if (bytes.empty()) {
    return true;
  }
  std::array<std::byte, 2> seen = {};
  const iovec here{.iov_base = seen.data(), .iov_len = seen.size()};
  // The kernel only reads them.
  auto* const begin = const_cast<std::byte*>(bytes.data());
  const std::array<iovec, 2> there = {iovec{.iov_base = begin, .iov_len = 1},
                                      iovec{.iov_base = begin + bytes.size() - 1, .iov_len = 1}};
  return process_vm_readv(getpid(), &here, 1, there.data(), there.size(), 0) ==
         static_cast<ssize_t>(seen.size());
}

Result<void> read_memory(pid_t pid, std::uint64_t address, std::span<std::byte> into) {
  while (!into.empty()) {
    const iovec here{.iov_base = into.data(), .iov_len = into.size()};
    const iovec there{.iov_base = reinterpret_cast<void*>(address), .iov_len = into.size()};
    const ssize_t read = process_vm_readv(pid, &here, 1, &there, 1, 0);
    if (read <= 0) {
      const int why = read == 0 ? EFAULT : errno;
      const std::string what = fmt::format("read {} bytes of process {}", into.size(), pid);
      return Error{Code::kUnavailable, errno_error(what, why).message};
    }
    address += static_cast<std::uint64_t>(read);
    into = into.subspan(static_cast<std::size_t>(read));
  }
  return {};
}

}  // namespace trainyard::comm
