// SPDX-License-Identifier: Apache-2.0
#include "api/pattern.h"

#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "formats/pcre2.h"

namespace trainyard::api {
namespace {

// Far above what any pattern of the model needs on its longest value (2,500 characters), and under
// a few milliseconds of work.
constexpr std::uint32_t kMatchLimit = 200'000;
constexpr std::uint32_t kDepthLimit = 10'000;
constexpr std::uint32_t kHeapLimitKiB = 4'096;

Pcre2Context make_limits() {
  Pcre2Context limits(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(limits.get(), kMatchLimit);
  pcre2_set_depth_limit(limits.get(), kDepthLimit);
  pcre2_set_heap_limit(limits.get(), kHeapLimitKiB);
  return limits;
}

}  // namespace

struct Pattern::Program {
  Pcre2Code code;
  Pcre2Context limits;
};

Pattern::Pattern(std::unique_ptr<Program> program) : program_(std::move(program)) {}
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;
Pattern::~Pattern() = default;

Result<Pattern> Pattern::compile_whole(std::string_view expression) {
  const std::string whole = "\\A(?:" + std::string(expression) + ")\\z";
  // Java's dot stops at any line end. Without PCRE2_UCP the short classes are ASCII, as in Java.
  YARD_TRY(Pcre2Code program, compile_pcre2(whole, PCRE2_NEWLINE_ANY));
  // Where the kernel forbids executable memory this fails, and the interpreter does the work.
  pcre2_jit_compile(program.get(), PCRE2_JIT_COMPLETE);
  return Pattern(std::make_unique<Program>(Program{std::move(program), make_limits()}));
}

bool Pattern::matches(std::string_view text) const {
  const Pcre2Data data(pcre2_match_data_create_from_pattern(program_->code.get(), nullptr));
  const auto run = [&](std::uint32_t options) {
    return pcre2_match(program_->code.get(), pcre2_bytes(text), text.size(), 0, options, data.get(),
                       program_->limits.get());
  };
  int result = run(0);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) {
    result = run(PCRE2_NO_JIT);
  }
  return result >= 0;
}

bool matches_pattern(const Shape& shape, std::string_view text) {
  if (shape.pcre.empty()) {
    return true;
  }
  struct Slot {
    std::once_flag once;
    std::optional<Pattern> pattern;
  };
  // One slot a shape, written once under its flag: a cache of constants, not state.
  static std::vector<Slot> slots(shapes().size());
  Slot& slot = slots[static_cast<std::size_t>(&shape - shapes().data())];
  std::call_once(slot.once, [&] {
    Result<Pattern> compiled = Pattern::compile_whole(shape.pcre);
    YARD_CHECK(compiled.has_value(), "a pattern of the AWS model does not compile");
    slot.pattern.emplace(*std::move(compiled));
  });
  return slot.pattern.has_value() && slot.pattern->matches(text);
}

}  // namespace trainyard::api
