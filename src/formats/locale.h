// SPDX-License-Identifier: Apache-2.0
// libarchive converts names by the locale of the calling thread, and loses those that are not ASCII
// in the "C" locale that a program starts with. This gives the thread UTF-8 for a while.
#pragma once

#include <clocale>
#include <utility>

namespace trainyard {

class Utf8Locale {
 public:
  Utf8Locale()
      : own_(newlocale(LC_CTYPE_MASK, "C.UTF-8", locale_t{})),
        before_(own_ != locale_t{} ? uselocale(own_) : locale_t{}) {}
  ~Utf8Locale() {
    if (own_ != locale_t{}) {
      uselocale(before_);
      freelocale(own_);
    }
  }
  Utf8Locale(const Utf8Locale&) = delete;
  Utf8Locale& operator=(const Utf8Locale&) = delete;

 private:
  locale_t own_;
  locale_t before_;
};

}  // namespace trainyard
