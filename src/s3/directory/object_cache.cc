// SPDX-License-Identifier: Apache-2.0
#include "s3/directory/object_cache.h"

#include <algorithm>
#include <utility>

#include <sys/resource.h>

namespace trainyard::s3 {
namespace {

constexpr std::size_t kMost = 2'048;

// No bucket's name holds a slash.
std::string name_of(const std::string& bucket, const std::string& key) {
  std::string name;
  name.reserve(bucket.size() + 1 + key.size());
  return name.append(bucket).append("/").append(key);
}

}  // namespace

std::shared_ptr<const OpenObject> ObjectCache::find(const std::string& bucket,
                                                    const std::string& key, std::uint64_t version) {
  const std::string name = name_of(bucket, key);
  const MutexLock lock(mutex_);
  auto found = young_.find(name);
  if (found == young_.end()) {
    auto node = old_.extract(name);
    if (node.empty()) {
      return nullptr;
    }
    found = young_.insert(std::move(node)).position;
  }
  if (found->second->version != version) {
    young_.erase(found);
    return nullptr;
  }
  return found->second;
}

void ObjectCache::keep(const std::string& bucket, std::shared_ptr<const OpenObject> object) {
  std::string name = name_of(bucket, object->row.info.key);
  Entries gone;  // closed after the lock has gone
  const MutexLock lock(mutex_);
  young_.insert_or_assign(std::move(name), std::move(object));
  if (young_.size() >= most_) {
    gone = std::exchange(old_, std::exchange(young_, {}));
  }
}

std::size_t cache_size() {
  rlimit files{};
  const bool is_limited =
      ::getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY;
  return is_limited ? std::min<std::size_t>(files.rlim_cur / 32, kMost / 2) : kMost / 2;
}

}  // namespace trainyard::s3
