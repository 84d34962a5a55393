// SPDX-License-Identifier: Apache-2.0
#include "wire/heard_numbers.h"

namespace trainyard::wire {

bool HeardNumbers::hear(std::uint64_t number) {
  if (number == 0 || (number <= highest_ && highest_ - number >= kWindow)) {
    return false;
  }
  if (number > highest_ && number - highest_ >= kWindow) {
    heard_.reset();
    highest_ = number;
  }
  for (; highest_ < number; ++highest_) {
    heard_.reset((highest_ + 1) % kWindow);
  }
  if (heard_.test(number % kWindow)) {
    return false;
  }
  heard_.set(number % kWindow);
  return true;
}

}  // namespace trainyard::wire
