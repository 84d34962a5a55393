// SPDX-License-Identifier: Apache-2.0
// `trainyard store import`: makes the files of a folder objects of a bucket without sending them
// through HTTP. Each file is read once, for its ETag; its bytes are shared with the file where the
// file system can (reflink), copied where it cannot, or, when asked for, the file itself becomes
// the content (hard link). Files that are already there with their length and time are passed over,
// so that an import that was broken off goes on where it was. Links that lead out of the folder,
// special files (which are not opened) and the store's own folder are refused by name, and the
// others go on.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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
};

struct AdoptProgress {
  std::uint64_t files = 0;                // that are objects now
  std::uint64_t passed = 0;               // were there already
  std::uint64_t bytes = 0;                // of `files`
  std::uint64_t shared = 0;               // of `files`, by reflink or hard link
  std::vector<std::string> refused = {};  // "<name>: <why>"
};

// Called after each batch, which is durable then.
using AdoptReport = std::function<void(const AdoptProgress&)>;

// kNotFound when the folder is not there, kInvalidArgument when it is part of the store. An error
// of the store ends the import; what was reported before stays.
Result<AdoptProgress> adopt(DirectoryStore& store, const AdoptOptions& options,
                            const AdoptReport& report);

}  // namespace trainyard::s3
