// SPDX-License-Identifier: Apache-2.0
#include "instance/transfer/checkpoint_watch.h"

#include <array>
#include <cerrno>
#include <optional>

#include <sys/inotify.h>
#include <unistd.h>

namespace trainyard::instance {
namespace {

constexpr std::uint32_t kEvents =
    IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE | IN_ONLYDIR;
constexpr std::size_t kBuffer = std::size_t{64} << 10;
constexpr int kReads = 64;

std::optional<TreeNews::Kind> kind_of(std::uint32_t mask) {
  if ((mask & IN_CREATE) != 0) {
    return TreeNews::Kind::kMade;
  }
  if ((mask & IN_CLOSE_WRITE) != 0) {
    return TreeNews::Kind::kWritten;
  }
  if ((mask & IN_MOVED_TO) != 0) {
    return TreeNews::Kind::kMovedIn;
  }
  if ((mask & (IN_MOVED_FROM | IN_DELETE)) != 0) {
    return TreeNews::Kind::kGone;
  }
  return std::nullopt;
}

}  // namespace

Result<std::unique_ptr<CheckpointWatch>> CheckpointWatch::open(const CheckpointTree& tree) {
  Fd fd(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!fd.is_open()) {
    return errno_error("watch " + tree.place().inside, errno);
  }
  return std::unique_ptr<CheckpointWatch>(new CheckpointWatch(tree, std::move(fd)));
}

Result<void> CheckpointWatch::add(const std::string& directory) {
  YARD_TRY(const Fd opened, tree_.open_directory(directory));
  // By descriptor: a path could be made to lead elsewhere meanwhile.
  const std::string path = "/proc/self/fd/" + std::to_string(opened.get());
  const int watch = inotify_add_watch(fd_.get(), path.c_str(), kEvents);
  if (watch < 0) {
    const int code = errno == ENOSPC ? ENOMEM : errno;
    return errno_error("watch the directory " + directory, code);
  }
  if (const auto old = directories_.find(watch); old != directories_.end()) {
    watches_.erase(old->second);
  }
  directories_[watch] = directory;
  watches_[directory] = watch;
  return {};
}

void CheckpointWatch::forget_below(const std::string& directory) {
  const auto forget = [this](std::map<std::string, int>::iterator at) {
    inotify_rm_watch(fd_.get(), at->second);
    directories_.erase(at->second);
    return watches_.erase(at);
  };
  if (const auto own = watches_.find(directory); own != watches_.end()) {
    forget(own);
  }
  auto at = watches_.lower_bound(directory + "/");
  while (at != watches_.end() && at->first.starts_with(directory + "/")) {
    at = forget(at);
  }
}

std::vector<TreeNews> CheckpointWatch::take() {
  std::vector<TreeNews> news;
  alignas(inotify_event) std::array<char, kBuffer> buffer;
  // Bounded: user code may cause news faster than they are read.
  for (int i = 0; i < kReads; ++i) {
    const ssize_t length = read(fd_.get(), buffer.data(), buffer.size());
    if (length <= 0) {
      break;
    }
    const char* const end = buffer.data() + length;
    for (const char* at = buffer.data(); at < end;) {
      const auto* event = reinterpret_cast<const inotify_event*>(at);
      at += sizeof(inotify_event) + event->len;
      take_event(event->wd, event->mask, event->len > 0 ? event->name : "", news);
    }
  }
  return news;
}

void CheckpointWatch::take_event(int watch, std::uint32_t mask, const std::string& name,
                                 std::vector<TreeNews>& news) {
  if ((mask & IN_Q_OVERFLOW) != 0) {
    news.push_back({.kind = TreeNews::Kind::kLost});
    return;
  }
  const auto directory = directories_.find(watch);
  if (directory == directories_.end()) {
    return;  // what came before its watch was taken away
  }
  const std::string& parent = directory->second;
  if ((mask & IN_IGNORED) != 0) {
    // Its name may be another directory's by now.
    if (const auto by_name = watches_.find(parent);
        by_name != watches_.end() && by_name->second == watch) {
      watches_.erase(by_name);
    }
    directories_.erase(directory);
  } else if (const auto kind = kind_of(mask); kind && !name.empty()) {
    news.push_back({.kind = *kind,
                    .path = parent.empty() ? name : parent + "/" + name,
                    .is_directory = (mask & IN_ISDIR) != 0});
  }
}

}  // namespace trainyard::instance
