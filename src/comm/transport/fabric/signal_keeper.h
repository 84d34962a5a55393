// SPDX-License-Identifier: Apache-2.0
// libfabric's shm provider puts handlers of its own on signals that are the user's, and so do
// libraries that it brings along (PSM's). Where one of these ends and such a handler is there, the
// signal does again what it did when it began to live; what another thread of the user's has set
// meanwhile stays.
#pragma once

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <string_view>
#include <vector>

#include <dlfcn.h>
#include <link.h>

namespace trainyard::comm {

class SignalKeeper {
 public:
  SignalKeeper() {
    std::vector<const void*> headers;
    ::dl_iterate_phdr(
        [](dl_phdr_info* library, std::size_t, void* all) {
          static_cast<std::vector<const void*>*>(all)->push_back(library->dlpi_phdr);
          return 0;
        },
        &headers);
    for (const void* header : headers) {
      loaded_.push_back(library_of(header).dli_fbase);
    }
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
  // All null where no library is.
  static Dl_info library_of(const void* address) {
    Dl_info where{};
    ::dladdr(address, &where);
    return where;
  }
  // Its own, one of a provider in a folder named for it, or one of a library loaded meanwhile.
  bool is_of_libfabric(const struct sigaction& action) const {
    const Dl_info where = library_of(reinterpret_cast<const void*>(action.sa_handler));
    return where.dli_fname != nullptr &&
           (std::string_view(where.dli_fname).find("libfabric") != std::string_view::npos ||
            std::find(loaded_.begin(), loaded_.end(), where.dli_fbase) == loaded_.end());
  }

  static constexpr std::array<int, 8> kSignals = {SIGBUS, SIGSEGV, SIGTERM, SIGINT,
                                                  SIGHUP, SIGILL,  SIGABRT, SIGFPE};
  std::array<struct sigaction, kSignals.size()> actions_{};
  std::vector<const void*> loaded_;  // libraries, by where they begin
};

}  // namespace trainyard::comm
