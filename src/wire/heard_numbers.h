// SPDX-License-Identifier: Apache-2.0
// Which numbers of requests have been heard, so that none is heard twice: the highest, and a window
// of those below it, as IPsec has for its packets (RFC 4303, 3.4.3). Threads of an instance number
// their requests and then race, so order is not asked for. What is below the window counts as
// heard. One owner.
#pragma once

#include <bitset>
#include <cstdint>

namespace trainyard::wire {

class HeardNumbers {
 public:
  // An instance has fewer than ten requests under way, each for 30 s at most; the others meanwhile
  // make one every 20 ms at most.
  static constexpr std::uint64_t kWindow = 4096;

  // False when it was heard before, or may have been. Numbers begin with 1.
  bool hear(std::uint64_t number);

 private:
  std::uint64_t highest_ = 0;
  std::bitset<kWindow> heard_;  // at number % kWindow, of the kWindow numbers up to the highest
};

}  // namespace trainyard::wire
