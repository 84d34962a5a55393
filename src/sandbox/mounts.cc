// SPDX-License-Identifier: Apache-2.0
#include "sandbox/mounts.h"

#include <algorithm>
#include <cerrno>
#include <string>

#include <fmt/format.h>
#include <sys/mount.h>

#include "base/text.h"

namespace trainyard::sandbox {
namespace {

// The kernel writes blank, tab, newline and backslash as three octal digits.
std::string unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view code = text.substr(i + 1, 3);
    if (text[i] == '\\' && code.size() == 3 &&
        code.find_first_not_of("01234567") == std::string_view::npos) {
      out += static_cast<char>((code[0] - '0') * 64 + (code[1] - '0') * 8 + (code[2] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

std::vector<Mount> parse_mountinfo(std::string_view mountinfo) {
  constexpr std::size_t kRoot = 3;
  constexpr std::size_t kPoint = 4;
  std::vector<Mount> mounts;
  for (const std::string_view line : split(mountinfo, '\n')) {
    const auto fields = split(line, ' ');
    // The number of fields varies before a lone "-", which type, source and options follow.
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (dash - fields.begin() <= static_cast<std::ptrdiff_t>(kPoint) || fields.end() - dash < 4) {
      continue;
    }
    Mount mount{.root = unescape(fields[kRoot]),
                .point = unescape(fields[kPoint]),
                .type = std::string(dash[1]),
                .options = {}};
    for (const std::string_view option : split(dash[3], ',')) {
      mount.options.emplace_back(option);
    }
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

std::vector<Path> mounts_below(std::string_view mountinfo, const Path& directory) {
  const std::string root = directory.lexically_normal().string();
  std::vector<Path> found;
  for (Mount& mount : parse_mountinfo(mountinfo)) {
    const std::string& point = mount.point.native();
    if (point == root || point.starts_with(root + "/")) {
      found.push_back(std::move(mount.point));
    }
  }
  return found;
}

Result<void> unmount_below(const Path& directory) {
  YARD_TRY(const std::string mountinfo, read_file("/proc/thread-self/mountinfo"));
  const std::vector<Path> points = mounts_below(mountinfo, directory);
  for (auto point = points.rbegin(); point != points.rend(); ++point) {
    if (umount2(point->c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0 && errno != EINVAL) {
      return errno_error(fmt::format("unmount {}", point->string()), errno);
    }
  }
  return {};
}

}  // namespace trainyard::sandbox
