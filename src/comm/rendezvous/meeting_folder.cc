// SPDX-License-Identifier: Apache-2.0
#include "comm/rendezvous/meeting_folder.h"

#include <cerrno>
#include <ctime>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"

namespace trainyard::comm {
namespace {

constexpr std::time_t kYoung = 60;  // seconds

bool is_old_socket(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode) &&
         status.st_mtime + kYoung < std::time(nullptr);
}

// Asked once: a listener that is there may be too busy to take the connection.
bool nobody_listens(const std::string& path) {
  const Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (!fd.is_open() || path.size() >= sizeof(address.sun_path)) {
    return false;
  }
  path.copy(address.sun_path, path.size());
  return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 &&
         errno == ECONNREFUSED;
}

}  // namespace

std::string usable_meeting_folder(const std::string& folder) {
  if (folder.empty()) {
    return {};
  }
  struct stat status {};
  const bool is_there = ::stat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
  if (is_there && ::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0) {
    return folder;
  }
  log_warning(fmt::format(
      "comm: {} {} to meet the ranks of other network namespaces in: those do not share memory "
      "with this one",
      is_there ? "this user may not use the folder" : "there is no folder", folder));
  return {};
}

void remove_abandoned_sockets(const std::string& folder) {
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  for (; entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    const std::filesystem::directory_entry& entry = *entries;
    const std::string path = entry.path().string();
    if (entry.path().filename().string().starts_with(kMeetingSocket) && is_old_socket(path) &&
        nobody_listens(path)) {
      ::unlink(path.c_str());
    }
  }
}

}  // namespace trainyard::comm
