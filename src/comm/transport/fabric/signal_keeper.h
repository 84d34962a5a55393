// SPDX-License-Identifier: Apache-2.0
// libfabric's shm provider puts handlers of its own on signals that are the user's. Where one of
// these ends and such a handler is there, the signal does again what it did when it began to live;
// what another thread of the user's has set meanwhile stays.
#pragma once

#include <array>
#include <csignal>
#include <cstddef>
#include <string_view>

#include <dlfcn.h>

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
      struct sigaction now {};
      ::sigaction(kSignals[i], nullptr, &now);
      if (is_of_libfabric(now)) {
        ::sigaction(kSignals[i], &actions_[i], nullptr);
      }
    }
  }
  SignalKeeper(const SignalKeeper&) = delete;
  SignalKeeper& operator=(const SignalKeeper&) = delete;

 private:
  // Its file, or one of its providers' in a folder named for it.
  static bool is_of_libfabric(const struct sigaction& action) {
    Dl_info where{};
    return ::dladdr(reinterpret_cast<const void*>(action.sa_handler), &where) != 0 &&
           std::string_view(where.dli_fname).find("libfabric") != std::string_view::npos;
  }

  static constexpr std::array<int, 5> kSignals = {SIGBUS, SIGSEGV, SIGTERM, SIGINT, SIGHUP};
  std::array<struct sigaction, kSignals.size()> actions_{};
};

}  // namespace trainyard::comm
