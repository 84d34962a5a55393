// SPDX-License-Identifier: Apache-2.0
#include "formats/archive_input.h"

#include <cerrno>

#include "base/encoding.h"
#include "base/text.h"
#include "formats/archive_path.h"

namespace trainyard {
namespace {

Error refused(std::string_view member, std::string_view why, std::string_view subject) {
  return {Code::kInvalidArgument,
          "archive member \"" + to_valid_utf8(member) + "\" " + std::string(why),
          std::string(subject)};
}

}  // namespace

ArchiveSource source_of(const Fd& file) {
  return [fd = file.get()](std::span<std::byte> out) { return read_some(fd, out); };
}

ArchiveInput::ArchiveInput(ArchiveSource source, const ArchiveLimits& limits)
    : source_(std::move(source)), limits_(limits), archive_(archive_read_new()) {}

la_ssize_t ArchiveInput::read_callback(archive* a, void* self, const void** buffer) {
  auto& input = *static_cast<ArchiveInput*>(self);
  auto got = input.source_(input.buffer_);
  if (!got) {
    input.source_error_ = std::move(got).error();
    archive_set_error(a, EIO, "the source failed");
    return -1;
  }
  *buffer = input.buffer_.data();
  return static_cast<la_ssize_t>(*got);
}

Error ArchiveInput::failure(std::string_view doing) const {
  if (source_error_) {
    return *source_error_;
  }
  const char* text = archive_error_string(archive_.get());
  return {Code::kCorrupt, "not a whole tar archive: " + std::string(doing) + ": " +
                              (text != nullptr ? to_valid_utf8(text) : "unknown error")};
}

Result<void> ArchiveInput::open() {
  archive* a = archive_.get();
  if (a == nullptr || archive_read_support_filter_gzip(a) != ARCHIVE_OK ||
      archive_read_support_format_tar(a) != ARCHIVE_OK) {
    return Error{Code::kExhausted, "no memory to read an archive"};
  }
  if (archive_read_open(a, this, nullptr, read_callback, nullptr) != ARCHIVE_OK) {
    return failure("open");
  }
  // The input itself counts as one. Compression in layers multiplies what a bomb can do.
  if (archive_filter_count(a) > 2) {
    return refused("", "is compressed more than once", "type");
  }
  return {};
}

Result<archive_entry*> ArchiveInput::next() {
  archive_entry* entry = nullptr;
  const int status = archive_read_next_header(archive_.get(), &entry);
  if (status == ARCHIVE_EOF) {
    return nullptr;
  }
  // A warning is about a name that is not UTF-8: its bytes are used as they are.
  if (status != ARCHIVE_OK && status != ARCHIVE_WARN) {
    return failure("header after \"" + to_valid_utf8(name_) + "\"");
  }
  if (++members_ > limits_.members) {
    return refused(name_, "is followed by too many others", "limit");
  }
  YARD_TRY(vet(entry));
  return entry;
}

Result<void> ArchiveInput::vet(archive_entry* entry) {
  const char* path = archive_entry_pathname(entry);
  const std::string raw = path != nullptr ? path : "";
  const auto clean = clean_member_name(raw);
  if (!clean || raw.empty()) {
    return refused(raw, "has a name that leads out of the directory", "path");
  }
  name_ = *clean;
  if (const char* target = archive_entry_hardlink(entry)) {
    const auto inside = clean_member_name(target);
    if (!inside || inside->empty()) {
      return refused(raw, "is a hard link to \"" + to_valid_utf8(target) + "\", outside", "link");
    }
    archive_entry_copy_hardlink(entry, inside->c_str());
    return vet_size(entry);
  }
  const auto type = archive_entry_filetype(entry);
  if (name_.empty() && type != AE_IFDIR) {
    return refused(raw, "has a name that leads out of the directory", "path");
  }
  if (type == AE_IFLNK) {
    const char* target = archive_entry_symlink(entry);
    if (target == nullptr || !link_stays_inside(name_, target)) {
      return refused(raw,
                     "is a link to \"" + to_valid_utf8(target != nullptr ? target : "") +
                         "\", which leads out of the directory",
                     "link");
    }
  } else if (type != AE_IFREG && type != AE_IFDIR) {
    return refused(raw, "is neither a file nor a directory nor a link", "type");
  }
  return vet_size(entry);
}

// What was unpacked so far plus what this member declares: its data must all come through the
// decompressor, even to be skipped. A sparse file's holes count as well.
Result<void> ArchiveInput::vet_size(archive_entry* entry) {
  const la_int64_t size = archive_entry_size(entry);
  const auto so_far = static_cast<std::uint64_t>(archive_filter_bytes(archive_.get(), 0));
  if (size < 0 || so_far > limits_.bytes ||
      static_cast<std::uint64_t>(size) > limits_.bytes - so_far) {
    return refused(name_, "makes the archive larger than " + human_bytes(limits_.bytes), "limit");
  }
  return {};
}

}  // namespace trainyard
