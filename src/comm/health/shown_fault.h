// SPDX-License-Identifier: Apache-2.0
// The fault that ended a rank's communicator, shown to the other ranks of its host: they need
// nobody who passes it on to see it, which a leader that is stopped, or has left, does not. Part of
// the rank's board (transport/shm/board.h): written by its owner, read by anyone at any time,
// without locks.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/result.h"

namespace trainyard::comm {

class ShownFault {
 public:
  static constexpr std::size_t kTextBytes = 1000;  // of the message; the rest is cut off

  void show(const Error& error);  // the first one stays
  std::optional<Error> seen() const;

 private:
  enum State : std::uint32_t { kNone, kBeingWritten, kShown };
  using Words = std::array<std::uint64_t, kTextBytes / 8>;

  std::atomic<std::uint32_t> state_ = kNone;
  std::atomic<std::uint32_t> code_ = 0;
  std::atomic<std::uint64_t> bytes_ = 0;
  std::array<std::atomic<std::uint64_t>, kTextBytes / 8> text_ = {};
};

}  // namespace trainyard::comm
