// SPDX-License-Identifier: Apache-2.0
// SIGUSR2 asks a process for the flight records of its communicators. A program that handles the
// signal itself, or ignores it, keeps it. One thread a process writes the records, which the
// handler only wakes.
#pragma once

#include <cstdint>
#include <functional>

namespace trainyard::comm {

// Calls `dump`, on a thread of its own, each time that this process gets SIGUSR2; signals that
// arrive close together may be one. Its destructor waits for a call that is under way. In a child
// of fork() nothing is called.
class OnDumpSignal {
 public:
  class Dumps;  // those of one process

  explicit OnDumpSignal(std::function<void()> dump);
  ~OnDumpSignal();
  OnDumpSignal(const OnDumpSignal&) = delete;
  OnDumpSignal& operator=(const OnDumpSignal&) = delete;

 private:
  Dumps& dumps_;
  std::uint64_t number_;
};

}  // namespace trainyard::comm
