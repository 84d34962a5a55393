// SPDX-License-Identifier: Apache-2.0
// Archives from outside: whatever they hold, nothing appears, changes or is reachable beyond the
// directory that they are extracted into, and listing agrees with extracting about what is legal.
#include <cstring>
#include <filesystem>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"
#include "formats/archive.h"
#include "testing/fuzz/fuzz.h"

namespace {

using trainyard::ArchiveSource;
using trainyard::Path;

constexpr trainyard::ArchiveLimits kLimits{.bytes = 1'000'000, .members = 64};

ArchiveSource source_over(std::string_view text) {
  return [text](std::span<std::byte> out) mutable -> trainyard::Result<std::size_t> {
    const std::size_t some = std::min(out.size(), text.size());
    std::memcpy(out.data(), text.data(), some);
    text.remove_prefix(some);
    return some;
  };
}

// A directory to extract into, beside one that must stay as it is.
struct Place {
  trainyard::TempDir folder = *trainyard::TempDir::make("yard-fuzz-tar-", "/dev/shm");
  Path inside = folder.path() / "inside";
  Path beside = folder.path() / "beside";

  Place() {
    std::filesystem::create_directory(inside);
    YARD_CHECK(trainyard::write_file(beside, "untouched", 0600).has_value(), "set up");
  }

  void check() const {
    YARD_CHECK(trainyard::read_file(beside).value_or("") == "untouched", "wrote beside");
    std::size_t entries = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      YARD_CHECK(entry.path() == inside || entry.path() == beside, "made something outside");
      ++entries;
    }
    YARD_CHECK(entries == 2, "removed something outside");
    for (const auto& entry : std::filesystem::recursive_directory_iterator(inside)) {
      if (entry.is_symlink()) {
        std::error_code failed;
        const Path leads = std::filesystem::weakly_canonical(entry.path(), failed);
        YARD_CHECK(failed || leads.string().starts_with(inside.string()), "a link leads outside");
      }
    }
  }
};

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = trainyard::fuzz::as_text(data, size);
  const auto listed = trainyard::list_archive(source_over(text), kLimits);
  if (listed) {
    YARD_CHECK(listed->size() <= kLimits.members, "more members than the limit");
    for (const trainyard::ArchiveMember& member : *listed) {
      YARD_CHECK(!member.name.starts_with('/'), "an absolute name");
    }
  }
  const Place place;
  const auto extracted = trainyard::extract_archive(source_over(text), place.inside, kLimits);
  YARD_CHECK(!extracted || listed, "extracted what could not be listed");
  YARD_CHECK(extracted || !extracted.error().message.empty(), "refused without a reason");
  place.check();
  return 0;
}
