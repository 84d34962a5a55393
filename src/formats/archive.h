// SPDX-License-Identifier: Apache-2.0
// Reads tar archives, plain or gzip'd, that come from outside and are therefore hostile: names the
// members, or extracts them below one directory. Nothing is ever created outside of it, and limits
// end a bomb early. tar_gz.h writes archives.
//
// Errors: kInvalidArgument names the member that is refused, with subject "link", "path", "type" or
// "limit"; kCorrupt for what is not a whole archive; errors of the source are passed on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace trainyard {

// Fills `out` with the next bytes; 0 at the end. The same type as s3::ByteSource.
using ArchiveSource = std::function<Result<std::size_t>(std::span<std::byte> out)>;

struct ArchiveLimits {
  std::uint64_t bytes = std::uint64_t{16} << 30;  // of all members together, unpacked
  std::size_t members = 500'000;
};

struct ArchiveMember {
  enum class Kind { kFile, kDirectory, kLink, kOther };

  std::string name;  // without "./" in front and "/" behind
  Kind kind = Kind::kFile;
  std::uint64_t size = 0;
};

Result<std::vector<ArchiveMember>> list_archive(const ArchiveSource& source,
                                                const ArchiveLimits& limits = {});
Result<std::vector<ArchiveMember>> list_archive(const Path& file, const ArchiveLimits& limits = {});

// Extracts below `directory`, which must exist; files that are there are replaced. Owners and
// set-id bits are not restored, modes are (the owner can always read and write), times are. After
// an error the members before the refused one are there. Links may point to places inside only.
Result<void> extract_archive(const ArchiveSource& source, const Path& directory,
                             const ArchiveLimits& limits = {});
Result<void> extract_archive(const Path& file, const Path& directory,
                             const ArchiveLimits& limits = {});

}  // namespace trainyard
