// SPDX-License-Identifier: Apache-2.0
#include "formats/archive.h"

#include <cerrno>
#include <memory>
#include <optional>

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/encoding.h"
#include "base/text.h"
#include "base/thread.h"
#include "formats/archive_input.h"

namespace trainyard {
namespace {

struct FreeWriter {
  void operator()(archive* a) const { archive_write_free(a); }
};
using Writer = std::unique_ptr<archive, FreeWriter>;

ArchiveMember::Kind kind_of(archive_entry* entry) {
  if (archive_entry_hardlink(entry) != nullptr) {
    return ArchiveMember::Kind::kLink;
  }
  switch (archive_entry_filetype(entry)) {
    case AE_IFREG:
      return ArchiveMember::Kind::kFile;
    case AE_IFDIR:
      return ArchiveMember::Kind::kDirectory;
    case AE_IFLNK:
      return ArchiveMember::Kind::kLink;
    default:
      return ArchiveMember::Kind::kOther;
  }
}

// The library's second line of defence behind ArchiveInput's checks: they hold even against links
// that were in the directory before.
Result<Writer> make_writer() {
  Writer writer(archive_write_disk_new());
  if (!writer ||
      archive_write_disk_set_options(
          writer.get(), ARCHIVE_EXTRACT_PERM | ARCHIVE_EXTRACT_TIME |
                            ARCHIVE_EXTRACT_SECURE_SYMLINKS | ARCHIVE_EXTRACT_SECURE_NODOTDOT |
                            ARCHIVE_EXTRACT_SECURE_NOABSOLUTEPATHS) != ARCHIVE_OK) {
    return Error{Code::kExhausted, "no memory to extract an archive"};
  }
  return writer;
}

Error not_written(archive* writer, const std::string& name) {
  const int number = archive_errno(writer);
  const char* text = archive_error_string(writer);
  Error error = number > 0 ? errno_error("", number) : Error{Code::kInvalidArgument, "", "path"};
  // A link or a file stands where the member wants a directory.
  if (number == ENOTDIR || number == ELOOP || number == EISDIR) {
    error = Error{Code::kInvalidArgument, "", "path"};
  }
  error.message = "archive member \"" + to_valid_utf8(name) +
                  "\": " + (text != nullptr ? to_valid_utf8(text) : "cannot be written");
  return error;
}

bool is_fine(int status) {
  return status == ARCHIVE_OK || status == ARCHIVE_WARN;
}

Result<void> copy_data(ArchiveInput& input, archive* writer, std::uint64_t limit) {
  for (;;) {
    const void* block = nullptr;
    std::size_t size = 0;
    la_int64_t offset = 0;
    const int status = archive_read_data_block(input.handle(), &block, &size, &offset);
    if (status == ARCHIVE_EOF) {
      return {};
    }
    if (!is_fine(status)) {
      return input.failure("data of \"" + to_valid_utf8(input.name()) + "\"");
    }
    if (static_cast<std::uint64_t>(offset) + size > limit) {
      return Error{Code::kInvalidArgument,
                   "archive member \"" + to_valid_utf8(input.name()) + "\" is larger than it says",
                   "limit"};
    }
    if (archive_write_data_block(writer, block, size, offset) < ARCHIVE_WARN) {
      return not_written(writer, input.name());
    }
  }
}

// A hard link to a symbolic link would move it to another level, where its steps up lead elsewhere;
// the library makes such links.
Result<void> vet_hard_link(const ArchiveInput& input, const char* target) {
  struct stat status;
  if (fstatat(AT_FDCWD, target, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode)) {
    return Error{Code::kInvalidArgument,
                 "archive member \"" + to_valid_utf8(input.name()) + "\" is a hard link to \"" +
                     to_valid_utf8(target) + "\", which is not a file before it",
                 "link"};
  }
  return {};
}

Result<void> extract_member(ArchiveInput& input, archive* writer, archive_entry* entry,
                            std::uint64_t limit) {
  archive_entry_copy_pathname(entry, input.name().c_str());
  if (const char* target = archive_entry_hardlink(entry)) {
    YARD_TRY(vet_hard_link(input, target));
  }
  const bool is_directory = archive_entry_filetype(entry) == AE_IFDIR;
  // No set-id bits, and the owner can always clean up.
  archive_entry_set_perm(entry, (archive_entry_perm(entry) & 0777) | (is_directory ? 0700 : 0600));
  if (!is_fine(archive_write_header(writer, entry))) {
    return not_written(writer, input.name());
  }
  YARD_TRY(copy_data(input, writer, limit));
  return is_fine(archive_write_finish_entry(writer)) ? Result<void>()
                                                     : not_written(writer, input.name());
}

Result<void> extract_here(const ArchiveSource& source, const ArchiveLimits& limits) {
  ArchiveInput input(source, limits);
  YARD_TRY(input.open());
  YARD_TRY(const Writer writer, make_writer());
  for (;;) {
    YARD_TRY(archive_entry * entry, input.next());
    if (entry == nullptr) {
      break;
    }
    // "./" is the directory itself: its mode and times stay.
    if (!input.name().empty()) {
      YARD_TRY(extract_member(input, writer.get(), entry, limits.bytes));
    }
  }
  return is_fine(archive_write_close(writer.get())) ? Result<void>()
                                                    : not_written(writer.get(), "(the last)");
}

// The library checks paths from the current directory on, which belongs to the whole process: only
// a thread that has left the others (CLONE_FS) may change its own.
Result<void> enter_alone(int directory) {
  if (unshare(CLONE_FS) != 0) {
    return errno_error("unshare the current directory", errno);
  }
  umask(022);
  return fchdir(directory) == 0 ? Result<void>() : errno_error("fchdir", errno);
}

}  // namespace

Result<std::vector<ArchiveMember>> list_archive(const ArchiveSource& source,
                                                const ArchiveLimits& limits) {
  ArchiveInput input(source, limits);
  YARD_TRY(input.open());
  std::vector<ArchiveMember> members;
  for (;;) {
    YARD_TRY(archive_entry * entry, input.next());
    if (entry == nullptr) {
      return members;
    }
    members.push_back({.name = input.name(),
                       .kind = kind_of(entry),
                       .size = static_cast<std::uint64_t>(archive_entry_size(entry))});
  }
}

Result<std::vector<ArchiveMember>> list_archive(const Path& file, const ArchiveLimits& limits) {
  YARD_TRY(const Fd fd, open_file(file, O_RDONLY));
  return list_archive(source_of(fd), limits);
}

Result<void> extract_archive(const ArchiveSource& source, const Path& directory,
                             const ArchiveLimits& limits) {
  YARD_TRY(const Fd target, open_file(directory, O_RDONLY | O_DIRECTORY));
  Result<void> result;
  start_thread("extract", [&](const std::stop_token&) {
    result = enter_alone(target.get());
    if (result) {
      result = extract_here(source, limits);
    }
  }).join();
  return result;
}

Result<void> extract_archive(const Path& file, const Path& directory, const ArchiveLimits& limits) {
  YARD_TRY(const Fd fd, open_file(file, O_RDONLY));
  return extract_archive(source_of(fd), directory, limits);
}

}  // namespace trainyard
