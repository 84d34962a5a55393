// SPDX-License-Identifier: Apache-2.0
#include "formats/left_out.h"

#include "base/text.h"

namespace trainyard {
namespace {

constexpr std::size_t kNamed = 5;

}  // namespace

void LeftOut::add(const Error& why) {
  ++count;
  if (named.size() < kNamed) {
    named.push_back(why.message);
  }
}

std::string LeftOut::text() const {
  const std::string more = count > named.size()
                               ? "; and " + std::to_string(count - named.size()) + " more"
                               : std::string();
  return join(named, "; ") + more;
}

}  // namespace trainyard
