// SPDX-License-Identifier: Apache-2.0
#include "comm/health/shown_fault.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace trainyard::comm {

// What is shown never changes: who sees the state (acquire) that is stored last (release) sees all.
void ShownFault::show(const Error& error) {
  std::uint32_t none = kNone;
  if (!state_.compare_exchange_strong(none, kBeingWritten, std::memory_order_relaxed)) {
    return;
  }
  const std::size_t bytes = std::min(error.message.size(), kTextBytes);
  Words words = {};
  std::memcpy(words.data(), error.message.data(), bytes);
  for (std::size_t i = 0; i < words.size(); ++i) {
    text_[i].store(words[i], std::memory_order_relaxed);
  }
  bytes_.store(bytes, std::memory_order_relaxed);
  code_.store(static_cast<std::uint32_t>(error.code), std::memory_order_relaxed);
  state_.store(kShown, std::memory_order_release);
}

std::optional<Error> ShownFault::seen() const {
  if (state_.load(std::memory_order_acquire) != kShown) {
    return std::nullopt;
  }
  Words words = {};
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = text_[i].load(std::memory_order_relaxed);
  }
  std::string text(std::min<std::uint64_t>(bytes_.load(std::memory_order_relaxed), kTextBytes),
                   '\0');
  std::memcpy(text.data(), words.data(), text.size());
  const auto code = code_.load(std::memory_order_relaxed);
  const bool is_known = code <= static_cast<std::uint32_t>(Code::kInternal);
  return Error{is_known ? static_cast<Code>(code) : Code::kInternal, std::move(text)};
}

}  // namespace trainyard::comm
