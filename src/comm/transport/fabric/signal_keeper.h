// SPDX-License-Identifier: Apache-2.0
// libfabric's shm provider puts handlers of its own on signals that are the user's. What the
// signals do when one of these begins to live, they do again when it ends.
#pragma once

#include <array>
#include <csignal>
#include <cstddef>

namespace trainyard::comm {

class SignalKeeper {
 public:
  SignalKeeper() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      ::sigaction(kSignals[i], nullptr, &actions_[i]);
    }
  }
  ~SignalKeeper() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      ::sigaction(kSignals[i], &actions_[i], nullptr);
    }
  }
  SignalKeeper(const SignalKeeper&) = delete;
  SignalKeeper& operator=(const SignalKeeper&) = delete;

 private:
  static constexpr std::array<int, 5> kSignals = {SIGBUS, SIGSEGV, SIGTERM, SIGINT, SIGHUP};
  std::array<struct sigaction, kSignals.size()> actions_{};
};

}  // namespace trainyard::comm
