// SPDX-License-Identifier: Apache-2.0
// A file layer that remembers: preloaded into a server, it writes every change below one directory
// to a journal, in the order in which they happened, with what has been synced. replay.py builds
// from it the states that a loss of power at any moment may leave. The server itself notices
// nothing, and its children are not watched.
//
//   LD_PRELOAD=libpowerloss.so YARD_POWERLOSS_ROOT=<directory> YARD_POWERLOSS_JOURNAL=<file>
//
// One record, little-endian:
//   operation u32 | payload length u32 | file u64 | offset u64 | began u64 | payload
// Files are numbered as they are met; directories are named by their path in the payload. `began`
// of a sync counts the records that were there before it began: only those are covered by it.
// Writes through mappings are not seen: SQLite has them in its -shm files only, which it makes
// anew.
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace {

enum Operation : std::uint32_t {
  kFound = 1,     // a file that was there before; payload: path
  kCreate = 2,    // path
  kWrite = 3,     // bytes, at offset
  kTruncate = 4,  // to offset
  kRename = 5,    // old path, zero byte, new path
  kLink = 6,      // new path, of file
  kUnlink = 7,    // path
  kMkdir = 8,     // path
  kRmdir = 9,     // path
  kSync = 10,     // of file
  kSyncDir = 11,  // path
  kSyncAll = 12,
};

// Never destroyed: threads may still write while the process ends.
struct State {
  std::mutex mutex;
  std::string root;
  int journal = -1;
  pid_t pid = 0;
  std::uint64_t records = 0;
  std::uint64_t last_file = 0;
  std::map<std::pair<dev_t, ino_t>, std::uint64_t> files;
};
State* state = nullptr;

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}
#define REAL(name) static auto* const call = real<decltype(::name)>(#name)

bool is_watching() {
  return state != nullptr && state->pid == ::getpid();
}

void append(Operation operation, std::uint64_t file, std::uint64_t offset, std::uint64_t began,
            const void* payload, std::size_t bytes) {
  struct {
    std::uint32_t operation, bytes;
    std::uint64_t file, offset, began;
  } head{operation, static_cast<std::uint32_t>(bytes), file, offset, began};
  // One write for both, so that whoever reads the journal's length sees whole records.
  const iovec parts[] = {{&head, sizeof(head)}, {const_cast<void*>(payload), bytes}};
  const ssize_t wanted = static_cast<ssize_t>(sizeof(head) + bytes);
  if (::syscall(SYS_writev, state->journal, parts, 2) != wanted) {
    std::abort();  // a journal with a hole would prove nothing
  }
  ++state->records;
}

void append(Operation operation, std::uint64_t file, const std::string& path) {
  append(operation, file, 0, 0, path.data(), path.size());
}

// The path below the root; empty for one that is elsewhere.
std::string below_root(int directory, const char* path) {
  std::string full = path;
  if (full.empty() || full[0] != '/') {
    char base[PATH_MAX];
    const std::string link =
        directory == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/" + std::to_string(directory);
    const ssize_t size = ::readlink(link.c_str(), base, sizeof(base));
    if (size <= 0) {
      return {};
    }
    full = std::string(base, static_cast<std::size_t>(size)) + "/" + full;
  }
  const std::string& root = state->root;
  if (full.compare(0, root.size(), root) != 0 || full.size() <= root.size() ||
      full[root.size()] != '/') {
    return {};
  }
  return full.substr(root.size() + 1);
}

std::string path_of(int fd) {
  char path[PATH_MAX];
  const ssize_t size =
      ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof(path));
  if (size <= 0) {
    return {};
  }
  const std::string full(path, static_cast<std::size_t>(size));
  return full == state->root ? "." : below_root(AT_FDCWD, full.c_str());
}

// The number of the open file; 0 for one that is not watched.
std::uint64_t file_of(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    return 0;
  }
  const auto found = state->files.find({info.st_dev, info.st_ino});
  return found == state->files.end() ? 0 : found->second;
}

bool is_there(int directory, const char* path) {
  struct stat ignored {};
  return ::fstatat(directory, path, &ignored, AT_SYMLINK_NOFOLLOW) == 0;
}

// After an open: numbers the file, and says what the opening has changed.
void note_open(int fd, const std::string& path, bool is_new, bool truncates) {
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    return;
  }
  std::uint64_t& file = state->files[{info.st_dev, info.st_ino}];
  if (is_new || file == 0) {
    file = ++state->last_file;
    append(is_new ? kCreate : kFound, file, path);
  }
  if (truncates && !is_new) {
    append(kTruncate, file, 0, 0, nullptr, 0);
  }
}

template <typename Open>
int watched_open(int directory, const char* path, int flags, const Open& open) {
  if (!is_watching()) {
    return open();
  }
  const std::string name = below_root(directory, path);
  const bool may_write = (flags & O_ACCMODE) != O_RDONLY;
  if (name.empty() || !may_write) {
    return open();
  }
  const std::lock_guard lock(state->mutex);
  const bool is_new = (flags & O_CREAT) != 0 && !is_there(directory, path);
  const int fd = open();
  if (fd >= 0) {
    note_open(fd, name, is_new, (flags & O_TRUNC) != 0);
  }
  return fd;
}

template <typename Make>
int watched_temporary(const Make& make) {
  if (!is_watching()) {
    return make();
  }
  const std::lock_guard lock(state->mutex);
  const int fd = make();
  if (fd >= 0) {
    if (const std::string name = path_of(fd); !name.empty()) {
      note_open(fd, name, true, false);
    }
  }
  return fd;
}

// `offset` -1: where the file stands, or its end when it is opened to append.
template <typename Write>
ssize_t watched_write(int fd, const iovec* parts, int count, off_t offset, const Write& write) {
  if (!is_watching()) {
    return write();
  }
  const std::lock_guard lock(state->mutex);
  const std::uint64_t file = file_of(fd);
  if (file == 0) {
    return write();
  }
  const ssize_t written = write();
  if (written <= 0) {
    return written;
  }
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    bytes.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
  }
  bytes.resize(static_cast<std::size_t>(written));
  const off_t at = offset >= 0 ? offset : ::lseek(fd, 0, SEEK_CUR) - written;
  append(kWrite, file, static_cast<std::uint64_t>(at), 0, bytes.data(), bytes.size());
  return written;
}

template <typename Sync>
int watched_sync(int fd, bool all, const Sync& sync) {
  if (!is_watching()) {
    return sync();
  }
  std::uint64_t began = 0;
  {
    const std::lock_guard lock(state->mutex);
    began = state->records;
  }
  const int done = sync();  // not under the lock: others go on meanwhile, as without us
  if (done != 0) {
    return done;
  }
  const std::lock_guard lock(state->mutex);
  if (all) {
    append(kSyncAll, 0, 0, began, nullptr, 0);
  } else if (const std::uint64_t file = file_of(fd); file != 0) {
    append(kSync, file, 0, began, nullptr, 0);
  } else if (const std::string path = path_of(fd); !path.empty()) {
    append(kSyncDir, 0, 0, began, path.data(), path.size());
  }
  return done;
}

template <typename Change>
int watched_change(Operation operation, int directory, const char* path, const Change& change) {
  if (!is_watching()) {
    return change();
  }
  const std::string name = below_root(directory, path);
  if (name.empty()) {
    return change();
  }
  const std::lock_guard lock(state->mutex);
  const int done = change();
  if (done == 0) {
    append(operation, 0, name);
  }
  return done;
}

template <typename Rename>
int watched_rename(int from_directory, const char* from, int to_directory, const char* to,
                   const Rename& rename) {
  if (!is_watching()) {
    return rename();
  }
  const std::string old_name = below_root(from_directory, from);
  const std::string new_name = below_root(to_directory, to);
  if (old_name.empty() && new_name.empty()) {
    return rename();
  }
  const std::lock_guard lock(state->mutex);
  const int done = rename();
  if (done == 0) {
    append(kRename, 0, old_name + '\0' + new_name);
  }
  return done;
}

template <typename Link>
int watched_link(int from_directory, const char* from, int to_directory, const char* to,
                 const Link& link) {
  if (!is_watching()) {
    return link();
  }
  const std::string name = below_root(to_directory, to);
  if (name.empty()) {
    return link();
  }
  const std::lock_guard lock(state->mutex);
  struct stat info {};
  // The source may be /proc/self/fd/N, of a file that had no name.
  ::fstatat(from_directory, from, &info, 0);
  const int done = link();
  if (done == 0) {
    std::uint64_t& file = state->files[{info.st_dev, info.st_ino}];
    if (file == 0) {
      std::abort();  // written where nobody watched: unknown bytes
    }
    append(kLink, file, name);
  }
  return done;
}

__attribute__((constructor)) void start() {
  const char* root = std::getenv("YARD_POWERLOSS_ROOT");
  const char* journal = std::getenv("YARD_POWERLOSS_JOURNAL");
  ::unsetenv("LD_PRELOAD");
  if (root == nullptr || journal == nullptr) {
    return;
  }
  static State storage;
  storage.root = root;
  storage.pid = ::getpid();
  storage.journal = static_cast<int>(
      ::syscall(SYS_openat, AT_FDCWD, journal, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (storage.journal < 0) {
    std::abort();
  }
  state = &storage;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  REAL(open);
  return watched_open(AT_FDCWD, path, flags, [&] { return call(path, flags, mode); });
}
int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  REAL(open64);
  return watched_open(AT_FDCWD, path, flags, [&] { return call(path, flags, mode); });
}
int openat(int directory, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  REAL(openat);
  return watched_open(directory, path, flags, [&] { return call(directory, path, flags, mode); });
}
int openat64(int directory, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  REAL(openat64);
  return watched_open(directory, path, flags, [&] { return call(directory, path, flags, mode); });
}
int creat(const char* path, mode_t mode) {
  REAL(creat);
  return watched_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC,
                      [&] { return call(path, mode); });
}
int mkstemp(char* name) {
  REAL(mkstemp);
  return watched_temporary([&] { return call(name); });
}
int mkostemp(char* name, int flags) {
  REAL(mkostemp);
  return watched_temporary([&] { return call(name, flags); });
}

ssize_t write(int fd, const void* bytes, size_t count) {
  REAL(write);
  const iovec part{const_cast<void*>(bytes), count};
  return watched_write(fd, &part, 1, -1, [&] { return call(fd, bytes, count); });
}
ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  REAL(pwrite);
  const iovec part{const_cast<void*>(bytes), count};
  return watched_write(fd, &part, 1, offset, [&] { return call(fd, bytes, count, offset); });
}
ssize_t pwrite64(int fd, const void* bytes, size_t count, off64_t offset) {
  REAL(pwrite64);
  const iovec part{const_cast<void*>(bytes), count};
  return watched_write(fd, &part, 1, offset, [&] { return call(fd, bytes, count, offset); });
}
ssize_t writev(int fd, const iovec* parts, int count) {
  REAL(writev);
  return watched_write(fd, parts, count, -1, [&] { return call(fd, parts, count); });
}
ssize_t pwritev(int fd, const iovec* parts, int count, off_t offset) {
  REAL(pwritev);
  return watched_write(fd, parts, count, offset, [&] { return call(fd, parts, count, offset); });
}

// As a copy by hand: the caller has to do without this one wherever it is not there.
ssize_t copy_file_range(int from, off64_t* from_at, int to, off64_t* to_at, size_t count,
                        unsigned flags) {
  REAL(copy_file_range);
  bool is_ours = false;
  if (is_watching()) {
    const std::lock_guard lock(state->mutex);
    is_ours = file_of(to) != 0;
  }
  if (is_ours) {
    errno = ENOSYS;
    return -1;
  }
  return call(from, from_at, to, to_at, count, flags);
}
ssize_t splice(int from, off64_t* from_at, int to, off64_t* to_at, size_t count, unsigned flags) {
  REAL(splice);
  bool is_ours = false;
  if (is_watching()) {
    const std::lock_guard lock(state->mutex);
    is_ours = file_of(to) != 0;
  }
  if (is_ours) {
    errno = EINVAL;
    return -1;
  }
  return call(from, from_at, to, to_at, count, flags);
}

int ftruncate(int fd, off_t size) {
  REAL(ftruncate);
  if (!is_watching()) {
    return call(fd, size);
  }
  const std::lock_guard lock(state->mutex);
  const std::uint64_t file = file_of(fd);
  const int done = call(fd, size);
  if (done == 0 && file != 0) {
    append(kTruncate, file, static_cast<std::uint64_t>(size), 0, nullptr, 0);
  }
  return done;
}
int ftruncate64(int fd, off64_t size) {
  return ftruncate(fd, size);
}

int fsync(int fd) {
  REAL(fsync);
  return watched_sync(fd, false, [&] { return call(fd); });
}
int fdatasync(int fd) {
  REAL(fdatasync);
  return watched_sync(fd, false, [&] { return call(fd); });
}
int syncfs(int fd) {
  REAL(syncfs);
  return watched_sync(fd, true, [&] { return call(fd); });
}

int rename(const char* from, const char* to) {
  REAL(rename);
  return watched_rename(AT_FDCWD, from, AT_FDCWD, to, [&] { return call(from, to); });
}
int renameat(int from_directory, const char* from, int to_directory, const char* to) {
  REAL(renameat);
  return watched_rename(from_directory, from, to_directory, to,
                        [&] { return call(from_directory, from, to_directory, to); });
}
int link(const char* from, const char* to) {
  REAL(link);
  return watched_link(AT_FDCWD, from, AT_FDCWD, to, [&] { return call(from, to); });
}
int linkat(int from_directory, const char* from, int to_directory, const char* to, int flags) {
  REAL(linkat);
  return watched_link(from_directory, from, to_directory, to,
                      [&] { return call(from_directory, from, to_directory, to, flags); });
}
int unlink(const char* path) {
  REAL(unlink);
  return watched_change(kUnlink, AT_FDCWD, path, [&] { return call(path); });
}
int unlinkat(int directory, const char* path, int flags) {
  REAL(unlinkat);
  return watched_change((flags & AT_REMOVEDIR) != 0 ? kRmdir : kUnlink, directory, path,
                        [&] { return call(directory, path, flags); });
}
int remove(const char* path) {
  return unlink(path) == 0 || (errno == EISDIR && rmdir(path) == 0) ? 0 : -1;
}
int mkdir(const char* path, mode_t mode) {
  REAL(mkdir);
  return watched_change(kMkdir, AT_FDCWD, path, [&] { return call(path, mode); });
}
int mkdirat(int directory, const char* path, mode_t mode) {
  REAL(mkdirat);
  return watched_change(kMkdir, directory, path, [&] { return call(directory, path, mode); });
}
int rmdir(const char* path) {
  REAL(rmdir);
  return watched_change(kRmdir, AT_FDCWD, path, [&] { return call(path); });
}

}  // extern "C"
