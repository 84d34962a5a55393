// SPDX-License-Identifier: Apache-2.0
// The objects that were asked for last, as they were opened: what the index says, and the open file
// of a small content. An entry holds as long as no transaction has been since, which its number
// tells; so it is never wrong, and a store that is written to all the time gains nothing by it.
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/fd.h"
#include "base/mutex.h"
#include "s3/directory/index.h"

namespace trainyard::s3 {

// An object that can be read whatever becomes of it.
struct OpenObject {
  std::uint64_t version = 0;  // of the index that said so
  ObjectRow row = {};         // without parts
  Fd file = {};
};

class ObjectCache {
 public:
  // A file that has been removed keeps its space on the disk while an entry has it open.
  static constexpr std::uint64_t kLargest = std::uint64_t{64} << 10;
  // Of headers and tags together, in bytes: there may be thousands of entries.
  static constexpr std::size_t kMostText = std::size_t{4} << 10;

  // Whether an object is small enough to be kept.
  static bool takes(const ObjectInfo& info);

  // Holds up to twice `most` entries, each with a file descriptor.
  explicit ObjectCache(std::size_t most) : most_(most) {}

  // Null when it is not there, or not of that version.
  std::shared_ptr<const OpenObject> find(const std::string& bucket, const std::string& key,
                                         std::uint64_t version);
  void keep(const std::string& bucket, std::shared_ptr<const OpenObject> object);

 private:
  using Entries = std::unordered_map<std::string, std::shared_ptr<const OpenObject>>;

  Entries age() YARD_GUARD(requires_capability(mutex_));

  const std::size_t most_;
  Mutex mutex_;
  // When the young ones are many they are the old ones, and those that were go: whatever is asked
  // for again in time is young again.
  Entries young_ GUARDED_BY(mutex_);
  Entries old_ GUARDED_BY(mutex_);
};

// How many entries a process may hold so that it has descriptors for other things: a sixteenth of
// those that it may open, but no more than 2,048. In halves, as ObjectCache wants them.
std::size_t cache_size();

}  // namespace trainyard::s3
