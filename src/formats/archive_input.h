// SPDX-License-Identifier: Apache-2.0
// An opened tar archive that yields one vetted member after the other: what list_archive() and
// extract_archive() share. Only formats/ includes it.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include <archive.h>
#include <archive_entry.h>

#include "formats/archive.h"
#include "formats/locale.h"

namespace trainyard {

class ArchiveInput {
 public:
  ArchiveInput(ArchiveSource source, const ArchiveLimits& limits);
  ArchiveInput(const ArchiveInput&) = delete;
  ArchiveInput& operator=(const ArchiveInput&) = delete;

  Result<void> open();

  // Null at the end. The name, the type, the links and the declared size have been checked.
  Result<archive_entry*> next();

  // Of the member that next() gave last.
  const std::string& name() const { return name_; }
  archive* handle() const { return archive_.get(); }
  // What the library just reported, or the source's own error.
  Error failure(std::string_view doing) const;

 private:
  struct FreeArchive {
    void operator()(archive* a) const { archive_read_free(a); }
  };

  static la_ssize_t read_callback(archive* a, void* self, const void** buffer);
  Result<void> vet(archive_entry* entry);
  Result<void> vet_size(archive_entry* entry);

  Utf8Locale locale_;
  ArchiveSource source_;
  ArchiveLimits limits_;
  std::unique_ptr<archive, FreeArchive> archive_;
  std::array<std::byte, 65536> buffer_;
  std::optional<Error> source_error_;
  std::string name_;
  std::size_t members_ = 0;
};

// A source that reads `file`, which must outlive it.
ArchiveSource source_of(const Fd& file);

}  // namespace trainyard
