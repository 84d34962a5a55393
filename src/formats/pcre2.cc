// SPDX-License-Identifier: Apache-2.0
#include "formats/pcre2.h"

#include <array>
#include <string>

namespace trainyard {
namespace {

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

PCRE2_SPTR pcre2_bytes(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());
}

Result<Pcre2Code> compile_pcre2(std::string_view expression, std::uint32_t newline,
                                std::uint32_t options) {
  const std::unique_ptr<pcre2_compile_context, Pcre2Freer<pcre2_compile_context_free>> context(
      pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), newline);
  int error = 0;
  PCRE2_SIZE offset = 0;
  Pcre2Code code(pcre2_compile(pcre2_bytes(expression), expression.size(),
                               options | PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C, &error, &offset,
                               context.get()));
  if (code == nullptr) {
    return Error{Code::kInvalidArgument,
                 message_of(error) + " at offset " + std::to_string(offset)};
  }
  return code;
}

}  // namespace trainyard
