// SPDX-License-Identifier: Apache-2.0
// What of a tree was left out of an archive because none can hold it. The first few are named, for
// people; all are counted.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"

namespace trainyard {

struct LeftOut {
  std::size_t count = 0;
  std::vector<std::string> named = {};  // "\"sub/pipe\" is a pipe", five at most

  void add(const Error& why);
  // "<first>; <second>; and 3 more"; empty when nothing was left out.
  std::string text() const;
};

}  // namespace trainyard
