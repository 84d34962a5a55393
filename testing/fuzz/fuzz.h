// SPDX-License-Identifier: Apache-2.0
// What the fuzz targets share. A target is one function from bytes to nothing that aborts when a
// property of the code does not hold; libFuzzer writes the input down. Time and keys are constants,
// so that an input always does the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace trainyard::fuzz {

inline std::string_view as_text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Cuts what stands before the first `mark` off the front of `text`; all of it when there is none.
inline std::string_view take_until(std::string_view& text, char mark) {
  const std::size_t at = text.find(mark);
  const std::string_view head = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return head;
}

// The first byte of an input chooses a variant; 0 when there is none.
inline std::uint8_t take_byte(std::string_view& text) {
  if (text.empty()) {
    return 0;
  }
  const auto byte = static_cast<std::uint8_t>(text.front());
  text.remove_prefix(1);
  return byte;
}

}  // namespace trainyard::fuzz
