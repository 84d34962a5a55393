// SPDX-License-Identifier: Apache-2.0
#include "instance/transfer/checkpoint_transfer.h"

#include <algorithm>
#include <vector>

#include <sys/stat.h>

#include "base/hash.h"

namespace trainyard::instance {
namespace {

using Kind = TransferEnd::Kind;

constexpr std::size_t kChunk = std::size_t{1} << 20;
// The kernel notes the times of a file by its tick, 10 ms at most: a second change within one does
// not show.
constexpr std::int64_t kTickNs = 20'000'000;

// What of the error of a store is the store's, and what that of one object.
Kind kind_of(const Error& error) {
  switch (error.code) {
    case Code::kUnavailable:
    case Code::kDeadline:
    case Code::kCancelled:
    case Code::kDenied:
    case Code::kExhausted:
      return Kind::kStoreFailed;
    case Code::kNotFound:
      return error.subject == "bucket" ? Kind::kStoreFailed : Kind::kFileFailed;
    case Code::kInvalidArgument:
      return error.subject.starts_with("key") ? Kind::kRefused : Kind::kFileFailed;
    default:
      return Kind::kFileFailed;
  }
}

TransferReport ended(Kind kind, std::string why) {
  return {.end = {.kind = kind}, .why = std::move(why)};
}

TransferReport cannot_open(const Error& error) {
  if (error.code == Code::kNotFound) {
    return ended(Kind::kGone, error.message);
  }
  return ended(error.subject == "oddity" ? Kind::kRefused : Kind::kFileFailed, error.message);
}

// Whether the last change of the file is old enough for the next one to show.
bool is_settled(int fd) {
  struct stat info = {};
  struct timespec now = {};
  if (fstat(fd, &info) != 0 || clock_gettime(CLOCK_REALTIME, &now) != 0) {
    return false;
  }
  const std::int64_t age =
      (now.tv_sec - info.st_ctim.tv_sec) * 1'000'000'000 + (now.tv_nsec - info.st_ctim.tv_nsec);
  return age >= kTickNs;
}

// Where leases do not tell: a file is closed when the kernel's news said so, or nobody is left.
bool is_held_open(const Fd& fd, const Upload& upload) {
  return is_open_for_writing(fd.get()).value_or(!upload.is_final &&
                                                upload.writer != Writer::kClosed);
}

// Whether the file begins with all that was sent of it: a log that is written on.
bool has_only_grown(const Fd& fd, const FileState& state, const Upload& upload,
                    const UploadHooks& hooks) {
  if (!upload.sent || state.size < upload.sent->size) {
    return false;
  }
  std::vector<std::byte> chunk(kChunk);
  std::uint32_t checksum = 0;
  for (std::uint64_t at = 0; at < upload.sent->size;) {
    const std::uint64_t left = upload.sent->size - at;
    const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(left, chunk.size()));
    const Result<std::size_t> got = read_at(fd.get(), std::span(chunk).first(want), at);
    if (!got || *got == 0 || hooks.is_pointless()) {
      return false;
    }
    checksum = crc32c(std::span(chunk).first(*got), checksum);
    at += *got;
  }
  return checksum == upload.sent->checksum;
}

// The body of one upload: exactly the bytes that the file had when it was opened, or an error
// before the last one is given.
class Body {
 public:
  Body(const Fd& fd, FileState state, const Upload& upload, const UploadHooks& hooks, bool is_open)
      : fd_(fd),
        state_(state),
        upload_(upload),
        hooks_(hooks),
        was_settled_(instance::is_settled(fd.get())),
        was_open_(is_open) {}

  Result<std::size_t> read(std::span<std::byte> out) {
    if (hooks_.is_pointless()) {
      return torn("it has changed or gone meanwhile");
    }
    const std::uint64_t left = state_.size - position_;
    if (left == 0) {
      if (!check()) {
        return torn("it has changed");
      }
      hooks_.progress.completing(upload_.path);
      return std::size_t{0};
    }
    const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(left, out.size()));
    YARD_TRY(const std::size_t got, read_at(fd_.get(), out.first(want), position_));
    if (got == 0) {
      return torn("it has become shorter");
    }
    checksum_ = crc32c(out.first(got), checksum_);
    position_ += got;
    hooks_.progress.read(upload_.path, position_);
    return got;
  }

  bool is_torn() const { return is_torn_; }
  std::uint32_t checksum() const { return checksum_; }
  bool is_settled() const { return was_settled_ && !has_changed_; }

 private:
  Result<void> check() {
    const Result<FileState> now = state_of(fd_.get());
    has_changed_ =
        !now || *now != state_ || (!was_open_ && is_open_for_writing(fd_.get()).value_or(false));
    return has_changed_ && !upload_.torn_is_fine ? Error{Code::kConflict, "changed"}
                                                 : Result<void>();
  }

  Error torn(const char* why) {
    is_torn_ = true;
    return Error{Code::kConflict, why, "torn"};
  }

  const Fd& fd_;
  FileState state_;
  const Upload& upload_;
  const UploadHooks& hooks_;
  const bool was_settled_;
  const bool was_open_;
  std::uint64_t position_ = 0;
  std::uint32_t checksum_ = 0;
  bool has_changed_ = false;
  bool is_torn_ = false;
};

}  // namespace

void UploadProgress::begin(const std::string& path, const FileState& content) {
  const MutexLock lock(mutex_);
  Mark& mark = marks_[path];
  if (mark.content != content) {
    mark = {.content = content};
  }
  if (mark.farthest > kReadAhead && mark.repeats < kRepeats) {
    ++mark.repeats;
    mark.farthest = kReadAhead;
  }
}

void UploadProgress::read(const std::string& path, std::uint64_t bytes) {
  if (bytes <= kReadAhead) {
    return;
  }
  const MutexLock lock(mutex_);
  std::uint64_t& farthest = marks_[path].farthest;
  if (bytes > farthest) {
    farthest = bytes;
    last_ = clock_.steady_now();
  }
}

void UploadProgress::forget_all_but(const std::map<std::string, FileState>& files) {
  const MutexLock lock(mutex_);
  std::erase_if(marks_, [&](const auto& item) { return !files.contains(item.first); });
}

void UploadProgress::completing(const std::string& path) {
  const MutexLock lock(mutex_);
  completing_.insert(path);
}

void UploadProgress::done(const std::string& path) {
  const MutexLock lock(mutex_);
  marks_.erase(path);
  completing_.erase(path);
  last_ = clock_.steady_now();
}

void UploadProgress::failed(const std::string& path) {
  const MutexLock lock(mutex_);
  completing_.erase(path);
}

SteadyTime UploadProgress::last() const {
  const MutexLock lock(mutex_);
  return completing_.empty() ? last_ : clock_.steady_now();
}

TransferReport send_file(const CheckpointTree& tree, s3::ObjectStore& store, const Upload& upload,
                         const UploadHooks& hooks) {
  const Result<Fd> fd = tree.open(upload.path);
  if (!fd) {
    return cannot_open(fd.error());
  }
  const Result<FileState> state = state_of(fd->get());
  if (!state) {
    return cannot_open(state.error());
  }
  const bool is_open = is_held_open(*fd, upload);
  const bool is_harmless =
      !is_open || !upload.has_object || has_only_grown(*fd, *state, upload, hooks);
  if (!is_harmless && !upload.torn_is_fine) {
    return ended(Kind::kHeldOpen, "a program has it open for writing");
  }
  Body body(*fd, *state, upload, hooks, is_open);
  s3::PutOptions options;
  options.length = state->size;
  const CheckpointPlace& place = tree.place();
  hooks.progress.begin(upload.path, *state);
  Result<s3::ObjectInfo> stored = store.put(
      place.bucket, place.prefix + upload.path,
      [&body](std::span<std::byte> out) { return body.read(out); }, options);
  if (!stored || body.is_torn()) {
    hooks.progress.failed(upload.path);
  }
  if (body.is_torn()) {
    return ended(Kind::kTorn, "it changed while it was read");
  }
  if (!stored) {
    return ended(kind_of(stored.error()), stored.error().message);
  }
  hooks.progress.done(upload.path);
  return {.end = {.kind = Kind::kDone,
                  .stored = {.etag = std::move(stored->etag), .state = *state},
                  .checksum = body.checksum(),
                  .is_settled = body.is_settled(),
                  .was_forced = !is_harmless},
          .why = {}};
}

TransferReport remove_object(const CheckpointTree& tree, s3::ObjectStore& store,
                             const Removal& removal) {
  if (const Result<FileState> state = tree.look(removal.path); state) {
    return {.end = {.kind = Kind::kGone, .stored = {.etag = {}, .state = *state}}, .why = {}};
  } else if (state.error().code != Code::kNotFound && state.error().subject != "oddity") {
    return ended(Kind::kFileFailed, state.error().message);
  }
  const CheckpointPlace& place = tree.place();
  const std::string key = place.prefix + removal.path;
  if (!removal.etag.empty()) {
    const Result<s3::ObjectInfo> there = store.head(place.bucket, key);
    if (!there && there.error().subject == "key") {
      return {};
    }
    if (!there) {
      return ended(kind_of(there.error()), there.error().message);
    }
    if (there->etag != removal.etag) {
      return {};  // another host's by now
    }
  }
  const Result<void> gone = store.remove(place.bucket, key);
  return gone ? TransferReport{} : ended(kind_of(gone.error()), gone.error().message);
}

}  // namespace trainyard::instance
