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

std::size_t text_of(const std::map<std::string, std::string>& values) {
  std::size_t bytes = 0;
  for (const auto& [name, value] : values) {
    bytes += name.size() + value.size();
  }
  return bytes;
}

}  // namespace

bool ObjectCache::takes(const ObjectInfo& info) {
  return info.size <= kLargest && text_of(info.headers) + text_of(info.tags) < kMostText;
}

std::shared_ptr<const OpenObject> ObjectCache::find(const std::string& bucket,
                                                    const std::string& key, std::uint64_t version) {
  const std::string name = name_of(bucket, key);
  Entries gone;  // closed after the lock has gone
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
  auto object = found->second;
  gone = age();
  return object;
}

void ObjectCache::keep(const std::string& bucket, std::shared_ptr<const OpenObject> object) {
  std::string name = name_of(bucket, object->row.info.key);
  Entries gone;  // closed after the lock has gone
  const MutexLock lock(mutex_);
  young_.insert_or_assign(std::move(name), std::move(object));
  gone = age();
}

// What is left over when the young ones have become many.
ObjectCache::Entries ObjectCache::age() {
  return young_.size() < most_ ? Entries() : std::exchange(old_, std::exchange(young_, {}));
}

std::size_t cache_size() {
  rlimit files{};
  const bool is_limited =
      ::getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY;
  return is_limited ? std::min<std::size_t>(files.rlim_cur / 32, kMost / 2) : kMost / 2;
}

}  // namespace trainyard::s3
