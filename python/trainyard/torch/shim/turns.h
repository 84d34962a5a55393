// SPDX-License-Identifier: Apache-2.0
// Receives of one peer and tag begin in the order of their issue, in which both the library and a
// wrapped backend match them. The library may be done with a later one first; it has compared the
// earlier ones by then.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace trainyard::torch_shim {

template <typename Item>
class Turns {
 public:
  using Key = std::pair<std::int32_t, std::uint32_t>;  // peer and tag

  // `issue` gives the item its place in the library; it may throw.
  void enter(const Key& key, Item item, const std::function<void()>& issue) {
    const std::lock_guard<std::mutex> lock(mutex_);
    issue();
    waiting_[key].push_back(std::move(item));
  }

  // One more of `key` may begin: the first. Once for each that entered.
  Item next(const Key& key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = waiting_.find(key);
    Item item = std::move(found->second.front());
    found->second.pop_front();
    if (found->second.empty()) {
      waiting_.erase(found);
    }
    return item;
  }

 private:
  std::mutex mutex_;
  std::map<Key, std::deque<Item>> waiting_;
};

}  // namespace trainyard::torch_shim
