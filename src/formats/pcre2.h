// SPDX-License-Identifier: Apache-2.0
// PCRE2's objects with their owners, and the one way in which expressions are compiled: for AWS's
// own patterns (api/pattern.h) and for users' (python_regex.h). Limits on matching are those that
// use it; whatever they match is hostile.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/result.h"

namespace trainyard {

template <auto Free>
struct Pcre2Freer {
  template <typename T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};
using Pcre2Code = std::unique_ptr<pcre2_code, Pcre2Freer<pcre2_code_free>>;
using Pcre2Context = std::unique_ptr<pcre2_match_context, Pcre2Freer<pcre2_match_context_free>>;
using Pcre2Data = std::unique_ptr<pcre2_match_data, Pcre2Freer<pcre2_match_data_free>>;
using Pcre2Stack = std::unique_ptr<pcre2_jit_stack, Pcre2Freer<pcre2_jit_stack_free>>;

PCRE2_SPTR pcre2_bytes(std::string_view text);

// Of UTF-8, without \C. `newline` is what the dot leaves out (PCRE2_NEWLINE_ANY, ...);
// kInvalidArgument says what is wrong and at which offset.
Result<Pcre2Code> compile_pcre2(std::string_view expression, std::uint32_t newline,
                                std::uint32_t options = 0);

}  // namespace trainyard
