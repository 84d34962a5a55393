// SPDX-License-Identifier: Apache-2.0
// `trainyard store import`: makes the files of a folder objects of a bucket without sending them
// through HTTP. Each file is read once, for its ETag; its bytes are shared with the file where the
// file system can (reflink), copied where it cannot, or, when asked for, the file itself becomes
// the content (hard link). Files that are already there with their length and time are passed over,
// so that an import that was broken off goes on where it was. Links that lead out of the folder,
// special files (which are not opened) and folders of Trainyard's own are refused by name, and the
// others go on.
//
//   walk, in the order of keys ──► batches ──► threads that read, hash, write and commit a batch
//   each
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "s3/directory/directory_store.h"

namespace trainyard::s3 {

enum class AdoptMode {
  kShare,  // reflink, or a copy
  kLink,   // hard link, on the promise that nobody changes the files; a copy on another file system
  kCopy,
};

struct AdoptOptions {
  Path folder = {};
  std::string bucket = {};  // created when it is not there
  std::string prefix = {};  // before each name; "" or as given, without an added "/"
  AdoptMode mode = AdoptMode::kShare;
  std::stop_token stop = {};  // what was read by then becomes objects, and the import ends
};

struct AdoptProgress {
  std::uint64_t files = 0;                // that are objects now
  std::uint64_t passed = 0;               // were there already
  std::uint64_t bytes = 0;                // of `files`
  std::uint64_t shared = 0;               // of `files`, by reflink or hard link
  std::uint64_t read = 0;                 // bytes, also of files that are no objects yet
  std::vector<std::string> refused = {};  // "<name>: <why>"
  bool is_stopped = false;                // not all of the folder was looked at
};

// Called on the caller's thread ten times a second; `refused` is filled at the end only.
using AdoptReport = std::function<void(const AdoptProgress&)>;

// kNotFound when the folder is not there, kInvalidArgument when it is part of the store or itself a
// Trainyard home. An error of the store ends the import; what was reported before stays.
Result<AdoptProgress> adopt(DirectoryStore& store, const AdoptOptions& options,
                            const AdoptReport& report);

}  // namespace trainyard::s3
