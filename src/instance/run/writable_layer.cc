// SPDX-License-Identifier: Apache-2.0
#include "instance/run/writable_layer.h"

#include <cerrno>
#include <filesystem>
#include <string>

#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

namespace trainyard::instance {
namespace {

namespace fs = std::filesystem;

// In an overlay's options a comma begins the next one, and a colon the next directory below.
std::string escaped(const Path& path) {
  std::string out;
  for (const char character : path.native()) {
    if (character == '\\' || character == ',' || character == ':') {
      out += '\\';
    }
    out += character;
  }
  return out;
}

Result<void> mount_in_memory(const Path& directory) {
  YARD_TRY(make_directories(directory));
  if (mount("tmpfs", directory.c_str(), "tmpfs", MS_NODEV, nullptr) != 0) {
    return errno_error("mount tmpfs", errno);
  }
  return {};
}

// Somebody else's directories, whom a user namespace does not know, cannot be written to even by
// its root. An overlay shows of a directory the uppermost one: these, which are ours.
Result<bool> lay_own_directories(const WritableLayer& layer, const Path& own) {
  struct stat found = {};
  if (!layer.without_root || stat(layer.directory.c_str(), &found) != 0 ||
      found.st_uid == geteuid()) {
    return false;
  }
  YARD_TRY(mount_in_memory(own));
  YARD_TRY(copy_directories(layer.directory, own));
  return true;
}

Result<void> mount_overlay(const WritableLayer& layer, const std::string& lower,
                           const Path& written) {
  YARD_TRY(make_directories(written / "upper"));
  YARD_TRY(make_directories(written / "work"));
  std::string options = "lowerdir=" + lower + ",upperdir=" + escaped(written / "upper") +
                        ",workdir=" + escaped(written / "work");
  if (layer.without_root) {
    options += ",userxattr";  // else no directory could be replaced: the mark for that is root's
  }
  // Nobody keeps a layer: its end need not wait until the whole disk is written (Linux 5.10).
  const std::string unsynced = options + ",volatile";
  const char* const place = layer.directory.c_str();
  if (mount("overlay", place, "overlay", 0, unsynced.c_str()) != 0 &&
      (errno != EINVAL || mount("overlay", place, "overlay", 0, options.c_str()) != 0)) {
    return errno_error("mount a layer over " + layer.directory.string(), errno);
  }
  return {};
}

Error explain(Error error, bool without_root) {
  error.message += without_root
                       ? " (an ordinary user may mount one from Linux 5.11 on: until then run the "
                         "server as root, or install packages into the environment itself)"
                       : " (the kernel needs overlay file systems: modprobe overlay, or install "
                         "packages into the environment itself)";
  return error;
}

}  // namespace

Result<void> mount_layer(const WritableLayer& layer) {
  YARD_TRY(const bool has_own, lay_own_directories(layer, layer.scratch / "directories"));
  const std::string lower =
      (has_own ? escaped(layer.scratch / "directories") + ":" : "") + escaped(layer.directory);
  if (const Result<void> mounted = mount_overlay(layer, lower, layer.scratch / "disk"); mounted) {
    return {};
  } else {
    log_info("layer in memory: " + mounted.error().message);
  }
  YARD_TRY(mount_in_memory(layer.scratch / "memory"));
  if (Result<void> mounted = mount_overlay(layer, lower, layer.scratch / "memory"); !mounted) {
    return explain(std::move(mounted).error(), layer.without_root);
  }
  return {};
}

Result<void> copy_directories(const Path& tree, const Path& copy) {
  const std::size_t root = tree.native().size();
  std::error_code failed;
  fs::recursive_directory_iterator entry(tree, fs::directory_options::skip_permission_denied,
                                         failed);
  for (; !failed && entry != fs::recursive_directory_iterator(); entry.increment(failed)) {
    std::error_code vanished;
    if (entry->is_symlink(vanished) || !entry->is_directory(vanished)) {
      continue;
    }
    const std::string made = copy.native() + entry->path().native().substr(root);
    if (mkdir(made.c_str(), 0755) != 0) {
      return errno_error("mkdir " + made, errno);
    }
  }
  return failed ? errno_error("read " + tree.string(), failed.value()) : Result<void>();
}

}  // namespace trainyard::instance
