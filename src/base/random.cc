// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <sys/random.h>

#include "base/check.h"
#include "base/encoding.h"

namespace trainyard {

std::uint64_t Random::next() {
  std::array<std::byte, 8> bytes;
  fill(bytes);
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  }
  return value;
}

std::string Random::hex(std::size_t bytes) {
  std::string raw(bytes, '\0');
  fill(std::as_writable_bytes(std::span(raw)));
  return to_hex(raw);
}

void SystemRandom::fill(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = getrandom(out.data(), out.size(), 0);
    YARD_CHECK(got > 0 || errno == EINTR, "getrandom(2) cannot fail once the kernel has booted");
    if (got > 0) {
      out = out.subspan(static_cast<std::size_t>(got));
    }
  }
}

void SeededRandom::fill(std::span<std::byte> out) {
  while (!out.empty()) {
    std::uint64_t value = engine_();
    const std::size_t used = std::min<std::size_t>(out.size(), 8);
    for (std::size_t i = 0; i < used; ++i, value >>= 8) {
      out[i] = static_cast<std::byte>(value & 0xff);
    }
    out = out.subspan(used);
  }
}

}  // namespace trainyard
