// SPDX-License-Identifier: Apache-2.0
// Descriptors between processes of one host, over a connected unix socket (SCM_RIGHTS): how ranks
// get the segment and each other's heaps. It works between sibling namespaces, where opening
// /proc/<pid>/fd or process_vm_readv do not. One message carries a text, which says what the
// descriptors are, and the descriptors.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace trainyard::comm {

constexpr std::size_t kMaxPassedFds = 32;
constexpr std::size_t kMaxPassedText = 4096;

struct PassedFds {
  std::string text;
  std::vector<Fd> fds;  // closed on exec
};

// `text` of 1 to kMaxPassedText bytes, at most kMaxPassedFds descriptors, which stay the caller's.
// The socket may be a stream or keep message borders; a stream's receiver must know how long the
// text is. kUnavailable when the peer is gone; kDeadline when a non-blocking socket has no room.
Result<void> send_fds(int socket, std::string_view text, std::span<const int> fds);
// One message, of at most `text_limit` bytes of text: of a stream, exactly what is needed of it.
// kUnavailable at the end of the connection, kDeadline when a non-blocking socket has nothing,
// kCorrupt when the kernel had to drop descriptors.
Result<PassedFds> receive_fds(int socket, std::size_t text_limit = kMaxPassedText);

Result<void> send_fd(int socket, std::string_view text, int fd);

}  // namespace trainyard::comm
