// SPDX-License-Identifier: Apache-2.0
#include "comm/rendezvous/meeting_folder.h"

#include <ctime>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "comm/rendezvous/sockets.h"

namespace trainyard::comm {
namespace {

constexpr std::time_t kYoung = 60;  // seconds

bool is_old_socket(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode) &&
         status.st_mtime + kYoung < std::time(nullptr);
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
