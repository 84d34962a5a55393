// SPDX-License-Identifier: Apache-2.0
// Looks now and then at what only somebody else begins, for those who wait by a future: in a Work's
// own wait() they would look themselves.
#pragma once

#include <chrono>
#include <functional>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base.h"
#include "completer.h"

namespace trainyard::torch_shim {

class Reminder {
 public:
  static constexpr Milliseconds kLook{100};
  using Look = std::function<bool()>;

  // It takes one of the Completer's threads while there is something to look at.
  static Reminder& get() { return of_this_process<Reminder>(); }

  // `look` is called until it says that there is nothing more to look at. It must not wait.
  void add(Look look) {
    const std::lock_guard<std::mutex> lock(mutex_);
    looks_.push_back(std::move(look));
    if (!std::exchange(is_looking_, true)) {
      Completer::get().post([this] { look_at_all(); });
    }
  }

 private:
  void look_at_all() {
    for (;;) {
      std::this_thread::sleep_for(kLook);
      std::vector<Look> looks;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        looks.swap(looks_);
      }
      std::erase_if(looks, [](const Look& look) { return look(); });
      const std::lock_guard<std::mutex> lock(mutex_);
      std::move(looks.begin(), looks.end(), std::back_inserter(looks_));
      if (looks_.empty()) {
        is_looking_ = false;
        return;
      }
    }
  }

  std::mutex mutex_;
  std::vector<Look> looks_;
  bool is_looking_ = false;
};

}  // namespace trainyard::torch_shim
