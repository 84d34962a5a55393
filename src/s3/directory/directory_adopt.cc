// SPDX-License-Identifier: Apache-2.0
// DirectoryStore's way to take files of this machine as objects.
#include <cerrno>

#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "s3/checksum.h"
#include "s3/directory/directory_state.h"
#include "s3/directory/directory_store.h"
#include "s3/names.h"

namespace trainyard::s3 {
namespace {

constexpr std::size_t kBuffer = std::size_t{256} << 10;

Error changed() {
  return Error{Code::kConflict, "it changed while it was read", "file"};
}

// What a file looks like from outside; any change of its bytes shows in it.
Result<struct stat> look_at(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) {
    return errno_error("reading its status", errno);
  }
  return status;
}

bool is_same(const struct stat& a, const struct stat& b) {
  return a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
         a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

ByteSource source_of(int fd) {
  return [fd, at = std::size_t{0}](std::span<std::byte> out) mutable -> Result<std::size_t> {
    YARD_TRY(const std::size_t got, read_at(fd, out, at));
    at += got;
    return got;
  };
}

Result<void> hash(int fd, Digester& digester) {
  std::vector<std::byte> buffer(kBuffer);
  const ByteSource source = source_of(fd);
  while (true) {
    YARD_TRY(const std::size_t got, source(buffer));
    if (got == 0) {
      return {};
    }
    digester.update(std::span<const std::byte>(buffer).first(got));
  }
}

struct Taken {
  Draft draft;
  Digester::Digests digests;
  bool shared = false;
};

Result<Taken> take(ContentFiles& files, const LocalFile& file) {
  const PutOptions options{.length = file.size};
  Digester digester(options);
  YARD_TRY(const struct stat before, look_at(file.fd));
  std::optional<Draft> draft;
  bool shared = false;
  if (file.may_link) {
    auto linked = files.link_file(file.fd);
    if (linked) {
      draft.emplace(*std::move(linked));
      shared = true;
      YARD_TRY(hash(file.fd, digester));
    } else if (linked.error().code != Code::kUnimplemented) {
      return std::move(linked).error();
    }
  }
  if (!draft) {
    YARD_TRY(Draft blank, files.start());
    shared = file.may_share && ::ioctl(blank.fd(), FICLONE, file.fd) == 0;
    YARD_TRY(shared ? hash(blank.fd(), digester)
                    : ContentFiles::fill(blank, source_of(file.fd), digester));
    draft.emplace(std::move(blank));
  }
  auto digests = digester.finish();
  YARD_TRY(const struct stat after, look_at(file.fd));
  if (!digests || !is_same(before, after)) {
    return changed();
  }
  return Taken{.draft = *std::move(draft), .digests = *std::move(digests), .shared = shared};
}

bool is_of_the_store(const Error& error) {
  return error.code == Code::kExhausted || error.subject == "disk";
}

}  // namespace

Result<AdoptedFiles> DirectoryStore::adopt_files(const std::string& bucket,
                                                 const std::vector<LocalFile>& files) {
  YARD_TRY(state_->index->require_bucket(bucket));
  AdoptedFiles adopted;
  std::vector<Draft> drafts;
  std::vector<ObjectRow> rows;
  for (const LocalFile& file : files) {
    const auto good = check_key(file.key);
    auto taken = good ? take(*state_->files, file) : Result<Taken>(good.error());
    if (!taken) {
      if (is_of_the_store(taken.error())) {
        return std::move(taken).error();
      }
      adopted.refused.emplace_back(file.key, taken.error().message);
      continue;
    }
    ++adopted.files;
    adopted.bytes += taken->digests.size;
    adopted.shared += taken->shared ? 1 : 0;
    rows.push_back({.info = {.key = file.key,
                             .size = taken->digests.size,
                             .etag = std::move(taken->digests.md5_hex),
                             .last_modified = file.modified},
                    .content = taken->draft.id()});
    drafts.push_back(std::move(taken->draft));
  }
  YARD_TRY(state_->files->sync_all());
  YARD_TRY(const Contents dropped, state_->index->put_objects(bucket, rows));
  for (Draft& draft : drafts) {
    draft.keep();
  }
  state_->collect(dropped);
  return adopted;
}

}  // namespace trainyard::s3
