// SPDX-License-Identifier: Apache-2.0
#include "s3/directory/content_files.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "base/thread.h"

namespace trainyard::s3 {
namespace {

constexpr std::size_t kBuffer = std::size_t{256} << 10;
constexpr std::uint64_t kFlushStep = std::uint64_t{8} << 20;
constexpr std::uint64_t kWorthReserving = std::uint64_t{8} << 20;
// A client that announces much and sends little holds no more than this.
constexpr std::uint64_t kMostReserved = std::uint64_t{1} << 30;
// A file descriptor each.
constexpr std::size_t kMostBlanks = 64;
// Fewer than these, and a store that has come to use the most at a time gets others at once.
constexpr std::size_t kFewBlanks = 32;
constexpr std::chrono::seconds kPause{1};
constexpr std::size_t kIdBytes = 16;
constexpr std::size_t kBatchBytes = 12;  // of an id, those that all blanks of a batch share

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

Result<void> sync_folder(const Fd& folder, const Path& path) {
  return persist([&] { return ::fsync(folder.get()); }) == 0
             ? Result<void>()
             : disk_error("syncing " + path.string(), errno);
}

Result<void> sync_folder(const Path& path) {
  YARD_TRY(const Fd folder, open_on_disk(path, O_RDONLY | O_DIRECTORY));
  return sync_folder(folder, path);
}

// data/00 to data/ff, durable. A start before this one may have made some that are not yet.
Result<void> make_shards(const Path& data) {
  for (int i = 0; i < 256; ++i) {
    const Path shard = data / fmt::format("{:02x}", i);
    if (::mkdir(shard.c_str(), 0700) != 0 && errno != EEXIST) {
      return disk_error("making " + shard.string(), errno);
    }
  }
  return sync_folder(data);
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

Result<std::shared_ptr<const Marker>> Marker::make(Path path) {
  YARD_TRY(const Fd file, open_on_disk(path, O_WRONLY | O_CREAT | O_EXCL));
  return std::shared_ptr<const Marker>(new Marker(std::move(path)));
}

Marker::~Marker() {
  if (stays_) {
    return;
  }
  ::unlink(path_.c_str());
}

// The content before its marker, which would find it.
Draft::~Draft() {
  if (marker_ != nullptr && !kept_) {
    ::unlink(published_.c_str());
  }
}

void Draft::leave() {
  marker_->stay();
  kept_ = true;
}

Result<void> Draft::publish() {
  return fd_.is_open() ? sync_content(fd_.get()) : Result<void>();
}

Result<std::unique_ptr<ContentFiles>> ContentFiles::open(const Path& root, Random& random) {
  YARD_TRY(make_directories(root / "incoming", 0700));
  YARD_TRY(make_directories(root / "data", 0700));
  YARD_TRY(make_shards(root / "data"));
  YARD_TRY(Fd pins, open_on_disk(root / kPinsFile, O_RDWR | O_CREAT | O_NOFOLLOW));
  YARD_TRY(sync_folder(root));
  return std::unique_ptr<ContentFiles>(new ContentFiles(root, random, std::move(pins)));
}

ContentFiles::~ContentFiles() = default;

Path ContentFiles::published_path(const std::string& content) const {
  return root_ / "data" / content.substr(0, 2) / content;
}

Result<std::vector<Draft>> ContentFiles::make_blanks(std::size_t count) {
  // One folder for all, so that one sync does.
  const std::string batch = random_.hex(kBatchBytes);
  const Path path = published_path(batch).parent_path();
  // Before the blanks, which may take the last descriptors.
  YARD_TRY(const Fd folder, open_on_disk(path, O_RDONLY | O_DIRECTORY));
  YARD_TRY(const auto marker, Marker::make(incoming_path(batch)));
  // First: a name in data/ alone would never be found again.
  YARD_TRY(sync_folder(root_ / "incoming"));
  std::vector<Draft> blanks;
  while (blanks.size() < count) {
    Path blank = path / (batch + random_.hex(kIdBytes - kBatchBytes));
    auto fd = open_on_disk(blank, O_RDWR | O_CREAT | O_EXCL);
    if (!fd && blanks.empty()) {
      return std::move(fd).error();
    }
    if (!fd) {
      break;  // a few do for now
    }
    blanks.emplace_back(std::move(blank), marker, *std::move(fd));
  }
  YARD_TRY(sync_folder(folder, path));
  return blanks;
}

Result<Draft> ContentFiles::start() {
  if (auto blank = take_blank()) {
    return *std::move(blank);
  }
  const MutexLock lock(making_);
  while (true) {
    if (auto blank = take_blank()) {
      return *std::move(blank);  // somebody has made some meanwhile
    }
    YARD_TRY(make_more());
  }
}

std::optional<Draft> ContentFiles::take_blank() {
  const MutexLock lock(mutex_);
  if (blanks_.empty()) {
    return std::nullopt;
  }
  std::optional<Draft> blank(std::move(blanks_.back()));
  blanks_.pop_back();
  if (blanks_.size() < kFewBlanks) {
    running_low_.notify_one();
  }
  return blank;
}

Result<void> ContentFiles::make_more() {
  const std::size_t wanted = next_batch_;
  auto made = make_blanks(wanted);
  const bool is_short = !made || made->size() < wanted;
  // What is full, or has run out, is left to others.
  next_batch_ = is_short ? std::max<std::size_t>(wanted / 2, 1) : std::min(wanted * 2, kMostBlanks);
  YARD_TRY(std::vector<Draft> blanks, std::move(made));
  if (wanted == kMostBlanks && !is_short && !ahead_.joinable()) {
    start_working_ahead();
  }
  const MutexLock lock(mutex_);
  for (Draft& blank : blanks) {
    blanks_.push_back(std::move(blank));
  }
  return {};
}

void ContentFiles::start_working_ahead() {
  try {
    ahead_ = start_thread("blanks", [this](const std::stop_token& stop) { work_ahead(stop); });
  } catch (const std::system_error&) {
    // The machine is out of threads: who needs a blank makes some, and tries this again.
    ahead_ = {};
  }
}

void ContentFiles::work_ahead(const std::stop_token& stop) {
  while (true) {
    {
      const MutexLock lock(mutex_);
      if (!running_low_.wait(mutex_, stop, [this] { return blanks_.size() < kFewBlanks; })) {
        return;
      }
    }
    const bool made = [this] {
      const MutexLock lock(making_);
      return make_more().has_value();
    }();
    if (!made) {
      // Who finds no blank tries again at once, and is told why.
      const MutexLock lock(mutex_);
      running_low_.wait_for(mutex_, stop, kPause, [] { return false; });
    }
  }
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
  const std::string id = random_.hex(kIdBytes);
  YARD_TRY(auto marker, Marker::make(incoming_path(id)));
  // First: a name in data/ alone would never be found again.
  YARD_TRY(sync_folder(root_ / "incoming"));
  Draft draft(published_path(id), std::move(marker), Fd());
  if (::link(published_path(content).c_str(), published_path(id).c_str()) != 0) {
    if (errno == EMLINK) {
      YARD_TRY(Draft copy, concatenate({content}));
      YARD_TRY(copy.publish());
      return copy;
    }
    return disk_error("copying a content", errno);
  }
  YARD_TRY(sync_folder(published_path(id).parent_path()));
  return draft;
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
