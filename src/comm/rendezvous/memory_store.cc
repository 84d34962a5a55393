// SPDX-License-Identifier: Apache-2.0
#include "comm/rendezvous/memory_store.h"

#include <algorithm>
#include <mutex>

namespace trainyard::comm {

Result<std::string> MemoryStore::claim(const std::string& key, const std::string& value) {
  const MutexLock lock(mutex_);
  const std::string held = values_.try_emplace(key, value).first->second;
  changed_.notify_all();
  return held;
}

Result<std::vector<std::string>> MemoryStore::wait_for(const std::vector<std::string>& keys,
                                                       std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  const bool are_there = changed_.wait_for(lock, time, [&] {
    return std::ranges::all_of(keys, [&](const auto& key) { return values_.contains(key); });
  });
  if (!are_there) {
    return Error{Code::kDeadline, "not every key was set in time"};
  }
  std::vector<std::string> values;
  values.reserve(keys.size());
  for (const std::string& key : keys) {
    values.push_back(values_.at(key));
  }
  return values;
}

Result<bool> MemoryStore::has(const std::string& key) {
  const MutexLock lock(mutex_);
  return values_.contains(key);
}

}  // namespace trainyard::comm
