// SPDX-License-Identifier: Apache-2.0
#include "s3/directory/content_files.h"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

namespace trainyard::s3 {
namespace {

constexpr std::size_t kBuffer = std::size_t{256} << 10;
constexpr std::uint64_t kFlushStep = std::uint64_t{8} << 20;
constexpr std::uint64_t kWorthReserving = std::uint64_t{8} << 20;
// A client that announces much and sends little holds no more than this.
constexpr std::uint64_t kMostReserved = std::uint64_t{1} << 30;
// A file descriptor each.
constexpr std::size_t kMostBlanks = 64;

// Until `buffer` is full or the body ends: few, large writes.
Result<std::size_t> read_full(const ByteSource& body, std::span<std::byte> buffer) {
  std::size_t filled = 0;
  while (filled < buffer.size()) {
    YARD_TRY(const std::size_t got, body(buffer.subspan(filled)));
    if (got == 0) {
      break;
    }
    filled += got;
  }
  return filled;
}

// A full disk is said before the body is read, where the file system can tell. Others go on.
Result<void> reserve(int fd, std::optional<std::uint64_t> length) {
  if (!length || *length < kWorthReserving ||
      ::fallocate(fd, FALLOC_FL_KEEP_SIZE, 0,
                  static_cast<off_t>(std::min(*length, kMostReserved))) == 0 ||
      (errno != ENOSPC && errno != EDQUOT && errno != EFBIG)) {
    return {};
  }
  return disk_error("reserving " + human_bytes(*length), errno);
}

Error of_the_disk(Error error) {
  const bool says_enough = error.code == Code::kNotFound || error.code == Code::kExhausted ||
                           error.code == Code::kUnavailable;
  error.code = says_enough ? error.code : Code::kInternal;
  error.subject = "disk";
  return error;
}

Result<void> of_the_disk(const Result<void>& done) {
  return done ? Result<void>() : Result<void>(of_the_disk(done.error()));
}

// `call` as often as a signal interrupts it; 0 and more is a success.
template <typename Call>
int persist(const Call& call) {
  int result = call();
  while (result < 0 && errno == EINTR) {
    result = call();
  }
  return result;
}

Result<Fd> open_on_disk(const Path& path, int flags) {
  Fd fd(persist([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0600); }));
  return fd.is_open() ? Result<Fd>(std::move(fd)) : disk_error("opening " + path.string(), errno);
}

Result<void> sync_folder(const Path& path) {
  YARD_TRY(const Fd folder, open_on_disk(path, O_RDONLY | O_DIRECTORY));
  return persist([&] { return ::fsync(folder.get()); }) == 0
             ? Result<void>()
             : disk_error("syncing " + path.string(), errno);
}

}  // namespace

Error disk_error(std::string_view what, int errno_value) {
  Error error = of_the_disk(errno_error(what, errno_value));
  if (errno_value == EMFILE || errno_value == ENFILE) {
    error.code = Code::kUnavailable;
  }
  return error;
}

Result<void> sync_content(int fd) {
  return persist([&] { return ::fdatasync(fd); }) == 0 ? Result<void>()
                                                       : disk_error("syncing a content", errno);
}

Draft::Draft(Draft&& other) noexcept
    : incoming_(std::move(other.incoming_)),
      published_(std::move(other.published_)),
      id_(std::exchange(other.id_, {})),
      fd_(std::move(other.fd_)),
      kept_(other.kept_) {}

Draft::~Draft() {
  if (id_.empty()) {
    return;
  }
  if (!kept_) {
    ::unlink(published_.c_str());
  }
  ::unlink(incoming_.c_str());
}

Result<void> Draft::publish() {
  return fd_.is_open() ? sync_content(fd_.get()) : Result<void>();
}

Result<std::unique_ptr<ContentFiles>> ContentFiles::open(const Path& root, Random& random) {
  YARD_TRY(make_directories(root / "incoming", 0700));
  YARD_TRY(make_directories(root / "data", 0700));
  YARD_TRY(sync_folder(root));
  return std::unique_ptr<ContentFiles>(new ContentFiles(root, random));
}

ContentFiles::~ContentFiles() = default;

Path ContentFiles::published_path(const std::string& content) const {
  return root_ / "data" / content.substr(0, 2) / content;
}

Draft ContentFiles::draft_of(const std::string& id, Fd fd) const {
  return {incoming_path(id), published_path(id), id, std::move(fd)};
}

Result<std::string> ContentFiles::new_id(const std::string& shard) {
  const Path folder = root_ / "data" / shard;
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    YARD_TRY(of_the_disk(make_directories(folder, 0700)));
    YARD_TRY(sync_folder(folder.parent_path()));
  }
  return shard + random_.hex(15);
}

Result<std::vector<Draft>> ContentFiles::make_blanks(std::size_t count) {
  // One folder for all, so that one sync does.
  const std::string shard = random_.hex(1);
  std::vector<Draft> blanks;
  for (std::size_t i = 0; i < count; ++i) {
    YARD_TRY(const std::string id, new_id(shard));
    YARD_TRY(Fd fd, open_on_disk(incoming_path(id), O_RDWR | O_CREAT | O_EXCL));
    blanks.push_back(draft_of(id, std::move(fd)));
    if (::link(incoming_path(id).c_str(), published_path(id).c_str()) != 0) {
      return disk_error("naming " + published_path(id).string(), errno);
    }
  }
  // The incoming names first: a name in data/ alone would never be found again.
  YARD_TRY(sync_folder(root_ / "incoming"));
  YARD_TRY(sync_folder(root_ / "data" / shard));
  return blanks;
}

Result<Draft> ContentFiles::start() {
  const MutexLock lock(mutex_);
  if (blanks_.empty()) {
    YARD_TRY(blanks_, make_blanks(next_batch_));
    next_batch_ = std::min(next_batch_ * 2, kMostBlanks);
  }
  Draft draft = std::move(blanks_.back());
  blanks_.pop_back();
  return draft;
}

Result<Draft> ContentFiles::write(const ByteSource& body, Digester& digester,
                                  std::optional<std::uint64_t> length) {
  YARD_TRY(Draft draft, start());
  YARD_TRY(fill(draft, body, digester, length));
  return draft;
}

Result<void> ContentFiles::fill(Draft& draft, const ByteSource& body, Digester& digester,
                                std::optional<std::uint64_t> length) {
  YARD_TRY(reserve(draft.fd(), length));
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(kBuffer);
  const std::span<std::byte> buffer(memory.get(), kBuffer);
  std::uint64_t written = 0;
  std::uint64_t flushed = 0;
  while (true) {
    YARD_TRY(const std::size_t got, read_full(body, buffer));
    const auto bytes = std::span<const std::byte>(buffer).first(got);
    digester.update(bytes);
    YARD_TRY(of_the_disk(write_all(draft.fd(), bytes)));
    written += got;
    if (got < kBuffer) {
      return {};
    }
    if (written - flushed >= kFlushStep) {
      // Begun now, so that the sync at the end finds little to do and no other waits for it long.
      static_cast<void>(::sync_file_range(draft.fd(), static_cast<off_t>(flushed),
                                          static_cast<off_t>(written - flushed),
                                          SYNC_FILE_RANGE_WRITE));
      flushed = written;
    }
  }
}

Result<Draft> ContentFiles::concatenate(const std::vector<std::string>& contents) {
  YARD_TRY(Draft draft, start());
  for (const std::string& content : contents) {
    YARD_TRY(const Fd part, open_content(content));
    YARD_TRY(of_the_disk(copy_rest(part.get(), draft.fd())));
  }
  return draft;
}

Result<Draft> ContentFiles::duplicate(const std::string& content) {
  YARD_TRY(const std::string id, new_id(random_.hex(1)));
  const Path incoming = incoming_path(id);
  const Path published = published_path(id);
  if (::link(published_path(content).c_str(), incoming.c_str()) != 0) {
    if (errno == EMLINK) {
      YARD_TRY(Draft copy, concatenate({content}));
      YARD_TRY(copy.publish());
      return copy;
    }
    return disk_error("copying a content", errno);
  }
  Draft draft = draft_of(id, Fd());
  // First: a name in data/ alone would never be found again.
  YARD_TRY(sync_folder(root_ / "incoming"));
  if (::link(incoming.c_str(), published.c_str()) != 0) {
    return disk_error("naming " + published.string(), errno);
  }
  YARD_TRY(sync_folder(published.parent_path()));
  return draft;
}

Result<Draft> ContentFiles::link_file(int fd) {
  YARD_TRY(const std::string id, new_id(random_.hex(1)));
  const std::string file = "/proc/self/fd/" + std::to_string(fd);
  const Path incoming = incoming_path(id);
  if (::linkat(AT_FDCWD, file.c_str(), AT_FDCWD, incoming.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    // Another file system, somebody else's file, or one with too many names.
    return errno == ENOSPC || errno == EDQUOT
               ? disk_error("linking a file", errno)
               : Error{Code::kUnimplemented, "the file cannot be linked"};
  }
  Draft draft = draft_of(id, Fd());
  if (::link(incoming.c_str(), published_path(id).c_str()) != 0) {
    return disk_error("naming " + published_path(id).string(), errno);
  }
  return draft;
}

Result<void> ContentFiles::sync_all() const {
  YARD_TRY(const Fd folder, open_on_disk(root_, O_RDONLY | O_DIRECTORY));
  if (::syncfs(folder.get()) != 0) {
    return disk_error("syncing the file system of " + root_.string(), errno);
  }
  return {};
}

Result<Fd> ContentFiles::open_content(const std::string& content) const {
  return open_on_disk(published_path(content), O_RDONLY);
}

Result<void> ContentFiles::remove(const std::string& content) const {
  const Path path = published_path(content);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return disk_error("removing " + path.string(), errno);
  }
  return {};
}

Result<std::vector<std::string>> ContentFiles::incoming() const {
  std::vector<std::string> found;
  std::error_code error;
  for (std::filesystem::directory_iterator it(root_ / "incoming", error), end; !error && it != end;
       it.increment(error)) {
    found.push_back(it->path().filename().string());
  }
  if (error) {
    return disk_error("listing " + (root_ / "incoming").string(), error.value());
  }
  return found;
}

void ContentFiles::forget_incoming(const std::string& content) const {
  ::unlink(incoming_path(content).c_str());
}

}  // namespace trainyard::s3
