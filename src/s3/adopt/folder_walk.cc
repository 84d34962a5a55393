// SPDX-License-Identifier: Apache-2.0
#include "s3/adopt/folder_walk.h"

#include <algorithm>
#include <cerrno>
#include <memory>

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "s3/adopt/trainyard_folder.h"

namespace trainyard::s3 {
namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

Result<Fd> open_folder(int from, const std::string& path) {
  open_how how = {};
  how.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  const char* const name = path.empty() ? "." : path.c_str();
  Fd fd(static_cast<int>(::syscall(SYS_openat2, from, name, &how, sizeof how)));
  return fd.is_open() ? Result<Fd>(std::move(fd)) : errno_error("cannot be opened", errno);
}

FolderWalk::Kind kind_of(int folder, const dirent& entry) {
  unsigned type = DTTOIF(entry.d_type);
  if (entry.d_type == DT_UNKNOWN) {
    struct stat status {};
    type = ::fstatat(folder, entry.d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 ? status.st_mode : 0;
  }
  switch (type & S_IFMT) {
    case S_IFREG:
      return FolderWalk::Kind::kFile;
    case S_IFDIR:
      return FolderWalk::Kind::kFolder;
    case S_IFLNK:
      return FolderWalk::Kind::kLink;
    default:
      return FolderWalk::Kind::kSpecial;
  }
}

// As the keys compare: what is in a folder has its name and a slash before it.
bool is_before(std::string_view a, bool a_is_folder, std::string_view b, bool b_is_folder) {
  const std::size_t common = std::min(a.size(), b.size());
  if (const int order = a.substr(0, common).compare(b.substr(0, common)); order != 0) {
    return order < 0;
  }
  const auto next = [common](std::string_view name, bool is_folder) {
    return name.size() > common ? static_cast<unsigned char>(name[common]) : is_folder ? '/' : -1;
  };
  return next(a, a_is_folder) < next(b, b_is_folder);
}

}  // namespace

FolderWalk::FolderWalk(int folder, Exclude exclude, Refuse refuse)
    : folder_(folder), exclude_(std::move(exclude)), refuse_(std::move(refuse)) {}

bool FolderWalk::Level::has(std::string_view name, Kind kind) const {
  const bool is_folder = kind == Kind::kFolder;
  const auto it = std::lower_bound(
      items.begin(), items.end(), name, [&](const Item& item, std::string_view wanted) {
        return is_before(name_of(item), item.kind == Kind::kFolder, wanted, is_folder);
      });
  return it != items.end() && name_of(*it) == name && it->kind == kind;
}

Result<void> FolderWalk::list(const Fd& folder, Level& level) {
  Fd copy(::fcntl(folder.get(), F_DUPFD_CLOEXEC, 0));
  const std::unique_ptr<DIR, CloseFolder> entries(::fdopendir(copy.get()));
  if (entries == nullptr) {
    return errno_error("cannot be read", errno);
  }
  static_cast<void>(copy.release());  // the other's now
  errno = 0;
  while (const dirent* const entry = ::readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") {
      level.items.push_back({.at = level.names.size(),
                             .size = static_cast<std::uint16_t>(name.size()),
                             .kind = kind_of(folder.get(), *entry)});
      level.names.append(name);
    }
    errno = 0;
  }
  if (errno != 0) {
    return errno_error("cannot be read", errno);
  }
  std::ranges::sort(level.items, [&level](const Item& a, const Item& b) {
    return is_before(level.name_of(a), a.kind == Kind::kFolder, level.name_of(b),
                     b.kind == Kind::kFolder);
  });
  return {};
}

Result<std::string> FolderWalk::read(Level& level) const {
  YARD_TRY(const Fd folder, open_folder(folder_, level.path));
  if (const std::string_view why = exclude_(folder.get()); !why.empty()) {
    return std::string(why);
  }
  YARD_TRY(list(folder, level));
  return std::string(trainyard_folder([&level](std::string_view name, EntryKind kind) {
    return level.has(name, kind == EntryKind::kFile ? Kind::kFile : Kind::kFolder) ||
           level.has(name, Kind::kLink);
  }));
}

Result<void> FolderWalk::enter(const std::string& path) {
  Level level{.path = path};
  const auto why = read(level);
  if (why && why->empty()) {
    levels_.push_back(std::move(level));
  } else if (!path.empty()) {
    refuse_(path, why ? *why : why.error().message);
  } else if (why) {
    return Error{Code::kInvalidArgument, *why, "folder"};
  } else {
    return why.error();
  }
  return {};
}

Result<std::optional<FolderWalk::Entry>> FolderWalk::next() {
  if (!has_begun_) {
    has_begun_ = true;
    YARD_TRY(enter(""));
  }
  while (!levels_.empty()) {
    Level& level = levels_.back();
    if (level.next == level.items.size()) {
      levels_.pop_back();
      continue;
    }
    const Item item = level.items[level.next++];
    std::string name = level.path + std::string(level.name_of(item));
    if (item.kind == Kind::kFolder) {
      YARD_TRY(enter(name + "/"));
    } else if (item.kind == Kind::kSpecial) {
      refuse_(name, "a special file");
    } else {
      return std::optional(Entry{.name = std::move(name), .kind = item.kind});
    }
  }
  return std::optional<Entry>();
}

}  // namespace trainyard::s3
