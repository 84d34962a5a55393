// SPDX-License-Identifier: Apache-2.0
// The parts of a DirectoryStore, shared by its two source files and by nobody else.
#pragma once

#include <memory>
#include <thread>

#include "base/file.h"
#include "s3/digest/hash_lanes.h"
#include "s3/directory/content_files.h"
#include "s3/directory/directory_store.h"
#include "s3/directory/index.h"
#include "s3/directory/object_cache.h"
#include "s3/directory/turns.h"
#include "s3/directory/unsettled.h"

namespace trainyard::s3 {

struct DirectoryStore::State {
  FileLock lock;
  std::unique_ptr<ContentFiles> files;
  std::unique_ptr<Index> index;
  Clock& clock;
  Random& random;
  Unsettled unsettled;
  ObjectCache opened{cache_size()};
  HashLanes lanes{std::thread::hardware_concurrency()};
  Turns joining;  // uploads whose parts become one content

  State(FileLock held, std::unique_ptr<ContentFiles> contents, std::unique_ptr<Index> names,
        Clock& with, Random& from)
      : lock(std::move(held)),
        files(std::move(contents)),
        index(std::move(names)),
        clock(with),
        random(from) {}

  // What the index says, once it is as durable as it will be.
  Result<ObjectRow> object(const std::string& bucket, const std::string& key,
                           Parts parts = Parts::kRead);

  // The same, with the file. It may have been opened before, for another.
  Result<std::shared_ptr<const OpenObject>> open(const std::string& bucket, const std::string& key);

  // Makes a draft the object, both durable.
  Result<Contents> put(const std::string& bucket, const ObjectRow& row,
                       const WriteCondition& condition, Draft& draft);

  // Removes files that the index has let go, once nobody copies the store (kept_back.h): those, and
  // up to `most_others` that had to stay before. Says how many. A failure costs space until the
  // next start, no more.
  std::size_t collect(const Contents& contents, std::size_t most_others = kCollectedWithEach);
  // More than a change lets go, so that they become fewer; few, so that none waits for them long.
  static constexpr std::size_t kCollectedWithEach = 8;
};

// Whether the index names, after a crash, what it has refused with this error: a change whose sync
// the disk has failed can stand there whole.
inline bool may_stand_after_a_crash(const Error& error) {
  return error.code == Code::kUnavailable;
}

// What the index has answered about a draft. Where it may be wrong after a crash the content stays,
// for the next start to judge.
Result<Contents> told(Draft& draft, Result<Contents> answer);

}  // namespace trainyard::s3
