// SPDX-License-Identifier: Apache-2.0
// The receives of which it is open what they take: those from any rank until somebody has waited
// for them, others until they begin. The library matches the messages between two ranks with one
// tag in their order; what overtook a receive from any rank would be compared with the message that
// the wrapped backend gave to that one. Such receives are refused before they begin.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base.h"

namespace trainyard::torch_shim {

// What is received, kept for as long as it is undecided.
using UndecidedPtr = std::shared_ptr<const yard_elsewhere>;

inline bool is_from_any(const yard_elsewhere& receive) {
  return receive.root < 0;
}

// Whether one may be compared with its message before the other is.
inline bool may_overtake(const yard_elsewhere& one, const yard_elsewhere& other) {
  if (one.tag != other.tag || (!is_from_any(one) && !is_from_any(other))) {
    return true;  // those from one rank have their turns
  }
  return is_from_any(one) && is_from_any(other) && one.count == other.count &&
         one.dtype == other.dtype;
}

class Receiving {
 public:
  // Throws when it could overtake one that is undecided, or be overtaken by it.
  UndecidedPtr enter(const yard_elsewhere& receive) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::erase_if(undecided_, [](const auto& other) { return other.expired(); });
    for (const auto& one : undecided_) {
      const UndecidedPtr other = one.lock();
      if (other != nullptr && !may_overtake(receive, *other)) {
        fail(YARD_INVALID_ARGUMENT, refusal(receive, *other));
      }
    }
    auto entered = std::make_shared<const yard_elsewhere>(receive);
    undecided_.push_back(entered);
    return entered;
  }

 private:
  static std::string source_of(const yard_elsewhere& receive) {
    return is_from_any(receive) ? "any rank" : "rank " + std::to_string(receive.root);
  }
  static std::string refusal(const yard_elsewhere& receive, const yard_elsewhere& other) {
    return "recv: a receive from " + source_of(receive) + " with tag " +
           std::to_string(receive.tag) + " was to begin while it is open which message one from " +
           source_of(other) + " with this tag takes; wait for that one first, or use another tag";
  }

  std::mutex mutex_;
  std::vector<std::weak_ptr<const yard_elsewhere>> undecided_;
};

}  // namespace trainyard::torch_shim
