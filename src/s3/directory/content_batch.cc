// SPDX-License-Identifier: Apache-2.0
#include "s3/directory/content_batch.h"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/encoding.h"
#include "base/hash.h"

namespace trainyard::s3 {
namespace {

constexpr std::size_t kNameBytes = 12;
constexpr std::size_t kBuffer = std::size_t{256} << 10;
constexpr std::uint64_t kFlushStep = std::uint64_t{8} << 20;

Error changed() {
  return Error{Code::kConflict, "it changed while it was read", "file"};
}

Result<void> write_content(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      return disk_error("writing a content", errno);
    }
  }
  return {};
}

// Any change of a file's bytes shows in its length or its time.
Result<void> require_unchanged(const LocalFile& file) {
  struct stat status {};
  if (::fstat(file.fd.get(), &status) != 0) {
    return errno_error("reading its status", errno);
  }
  const bool same = static_cast<std::uint64_t>(status.st_size) == file.size &&
                    status.st_mtim.tv_sec == file.modified.tv_sec &&
                    status.st_mtim.tv_nsec == file.modified.tv_nsec;
  return same ? Result<void>() : Result<void>(changed());
}

}  // namespace

ContentBatch::ContentBatch(const ContentFiles& files, std::string name)
    : marker_(files.root() / "incoming" / name),
      name_(std::move(name)),
      buffer_(std::make_unique_for_overwrite<std::byte[]>(kBuffer)) {}

Result<std::unique_ptr<ContentBatch>> ContentBatch::begin(const ContentFiles& files,
                                                          Random& random) {
  std::unique_ptr<ContentBatch> batch(new ContentBatch(files, random.hex(kNameBytes)));
  YARD_TRY(batch->open(files.root()));
  return batch;
}

Result<void> ContentBatch::open(const Path& root) {
  const Fd marker(::open(marker_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!marker.is_open()) {
    return disk_error("opening " + marker_.string(), errno);
  }
  // First: a name in data/ alone would never be found again.
  const Fd incoming(::open(marker_.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!incoming.is_open() || ::fsync(incoming.get()) != 0) {
    return disk_error("syncing " + marker_.parent_path().string(), errno);
  }
  const Path shard = root / "data" / name_.substr(0, 2);
  folder_ = Fd(::open(shard.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return folder_.is_open() ? Result<void>() : disk_error("opening " + shard.string(), errno);
}

ContentBatch::~ContentBatch() {
  if (!kept_) {
    for (const std::string& id : ids_) {
      ::unlinkat(folder_.get(), id.c_str(), 0);
    }
  }
  if (!left_) {
    ::unlink(marker_.c_str());
  }
}

Result<void> ContentBatch::sync() const {
  return ::syncfs(folder_.get()) == 0
             ? Result<void>()
             : disk_error("syncing the file system of " + marker_.string(), errno);
}

Result<ContentBatch::Taken> ContentBatch::take(const LocalFile& file, const AdoptWatch& watch) {
  auto taken = fill(file, watch, {.id = fmt::format("{}{:08x}", name_, count_++), .md5_hex = {}});
  if (taken) {
    if (const auto same = require_unchanged(file); !same) {
      taken = same.error();
    }
  }
  if (!taken) {
    ::unlinkat(folder_.get(), ids_.back().c_str(), 0);
    ids_.pop_back();
  }
  return taken;
}

Result<ContentBatch::Taken> ContentBatch::fill(const LocalFile& file, const AdoptWatch& watch,
                                               Taken blank) {
  ids_.push_back(blank.id);
  if (file.may_link) {
    const std::string source = "/proc/self/fd/" + std::to_string(file.fd.get());
    if (::linkat(AT_FDCWD, source.c_str(), folder_.get(), blank.id.c_str(), AT_SYMLINK_FOLLOW) ==
        0) {
      blank.shared = true;
      YARD_TRY(blank.md5_hex, pass(file.fd.get(), -1, file, watch));
      return blank;
    }
    // Otherwise: another file system, somebody else's file, or one with too many names.
    if (errno == ENOSPC || errno == EDQUOT) {
      return disk_error("linking a file", errno);
    }
  }
  const Fd content(
      ::openat(folder_.get(), blank.id.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!content.is_open()) {
    return disk_error("opening a content", errno);
  }
  if (file.may_share && can_reflink_ && file.size > 0) {
    blank.shared = ::ioctl(content.get(), FICLONE, file.fd.get()) == 0;
    can_reflink_ = blank.shared || (errno != EOPNOTSUPP && errno != ENOTTY);
  }
  // Of a clone its own bytes count: those of the file may have changed since.
  YARD_TRY(blank.md5_hex, blank.shared ? pass(content.get(), -1, file, watch)
                                       : pass(file.fd.get(), content.get(), file, watch));
  return blank;
}

Result<std::string> ContentBatch::pass(int from, int to, const LocalFile& file,
                                       const AdoptWatch& watch) const {
  const std::span<std::byte> buffer(buffer_.get(), kBuffer);
  Hasher md5(HashKind::kMd5);
  std::uint64_t passed = 0;
  std::uint64_t flushed = 0;
  // What comes behind the length that the file had shows in its status afterwards.
  while (passed < file.size) {
    if (watch.stop.stop_requested()) {
      return Error{Code::kCancelled, "the import was stopped"};
    }
    YARD_TRY(const std::size_t got, read_some(from, buffer));
    if (got == 0) {
      return changed();
    }
    const auto bytes = std::span<const std::byte>(buffer).first(got);
    md5.update(bytes);
    passed += got;
    if (watch.bytes_read != nullptr) {
      watch.bytes_read->fetch_add(got, std::memory_order_relaxed);
    }
    if (to < 0) {
      continue;
    }
    YARD_TRY(write_content(to, bytes));
    if (passed - flushed >= kFlushStep) {
      // Begun now, so that the sync at the end finds little to do.
      static_cast<void>(::sync_file_range(to, static_cast<off_t>(flushed),
                                          static_cast<off_t>(passed - flushed),
                                          SYNC_FILE_RANGE_WRITE));
      flushed = passed;
    }
  }
  return passed == file.size ? Result<std::string>(to_hex(md5.finish())) : changed();
}

bool is_batch(const std::string& incoming) {
  return incoming.size() == 2 * kNameBytes;
}

Result<std::vector<std::string>> contents_of_batch(const ContentFiles& files,
                                                   const std::string& name) {
  std::vector<std::string> found;
  const Path shard = files.published_path(name).parent_path();
  std::error_code error;
  for (std::filesystem::directory_iterator it(shard, error), end; !error && it != end;
       it.increment(error)) {
    std::string content = it->path().filename().string();
    if (content.starts_with(name)) {
      found.push_back(std::move(content));
    }
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return disk_error("listing " + shard.string(), error.value());
  }
  return found;
}

}  // namespace trainyard::s3
