// SPDX-License-Identifier: Apache-2.0
// Files of this machine on their way into a DirectoryStore: what an import hands in and what it is
// told.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"

namespace trainyard::s3 {

// A file of this machine that is to become an object, open for reading at its beginning.
struct LocalFile {
  std::string key;
  Fd fd;
  std::uint64_t size = 0;
  timespec modified{};    // of the object, too
  bool may_share = true;  // the bytes by reflink, where the file system can
  bool may_link = false;  // the file itself, by hard link: nobody will change it
};

// Gives the next file of a batch; empty behind the last.
using LocalFiles = std::function<std::optional<LocalFile>()>;

// How the caller looks on while a batch is taken, and ends it early.
struct AdoptWatch {
  std::stop_token stop = {};
  std::atomic<std::uint64_t>* bytes_read = nullptr;  // counts on; null: nobody looks
};

struct AdoptedFiles {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  std::uint64_t shared = 0;                                       // of `files`
  std::vector<std::pair<std::string, std::string>> refused = {};  // key, and why
};

// By which an object is known to be a file's already.
struct KnownFile {
  std::uint64_t size = 0;
  WallTime modified{};

  bool operator==(const KnownFile&) const = default;
};

// A file's time as an object has it.
inline WallTime object_time(const timespec& time) {
  return WallTime(std::chrono::seconds(time.tv_sec) +
                  std::chrono::milliseconds(time.tv_nsec / 1'000'000));
}

}  // namespace trainyard::s3
