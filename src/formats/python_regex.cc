// SPDX-License-Identifier: Apache-2.0
#include "formats/python_regex.h"

#include <algorithm>
#include <limits>

#include "formats/pcre2.h"

namespace trainyard {
namespace {

// About half a millisecond of compiled code, two of the interpreter: far more than a search of an
// ordinary line takes. A long line may cost more, in proportion.
constexpr std::uint32_t kSteps = 200'000;
constexpr std::uint32_t kStepsPerByte = 10;
constexpr std::uint32_t kDepth = 20'000;
constexpr std::uint32_t kHeapKiB = 4'096;
constexpr std::size_t kFirstStack = std::size_t{32}
                                    << 10;  // of compiled code; address space beyond
constexpr std::size_t kLargestStack = std::size_t{1} << 20;

}  // namespace

struct PythonRegex::Program {
  Pcre2Code code;
  // Made at the first search: most programs are only compiled to see whether they can be.
  Pcre2Stack stack;
  Pcre2Context context;
  Pcre2Data data;
  bool is_compiled = false;  // to machine code

  void prepare() {
    is_compiled = pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE) == 0;
    stack.reset(pcre2_jit_stack_create(kFirstStack, kLargestStack, nullptr));
    context.reset(pcre2_match_context_create(nullptr));
    pcre2_set_depth_limit(context.get(), kDepth);
    pcre2_set_heap_limit(context.get(), kHeapKiB);
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
    data.reset(pcre2_match_data_create(2, nullptr));  // the match, and group 1
  }

  int run(std::string_view text) {
    constexpr std::size_t kMost = std::numeric_limits<std::uint32_t>::max() / 2 / kStepsPerByte;
    const auto size = static_cast<std::uint32_t>(std::min(text.size(), kMost));
    pcre2_set_match_limit(context.get(), kSteps + kStepsPerByte * size);
    return is_compiled ? pcre2_jit_match(code.get(), pcre2_bytes(text), text.size(), 0, 0,
                                         data.get(), context.get())
                       : pcre2_match(code.get(), pcre2_bytes(text), text.size(), 0,
                                     PCRE2_NO_UTF_CHECK, data.get(), context.get());
  }
};

PythonRegex::PythonRegex(std::unique_ptr<Program> program) : program_(std::move(program)) {}
PythonRegex::PythonRegex(PythonRegex&&) noexcept = default;
PythonRegex& PythonRegex::operator=(PythonRegex&&) noexcept = default;
PythonRegex::~PythonRegex() = default;

Result<PythonRegex> PythonRegex::compile(std::string_view expression) {
  YARD_TRY(const Pcre2Form form, python_to_pcre2(expression));
  const std::uint32_t options = form.is_ascii ? 0U : std::uint32_t{PCRE2_UCP};
  // What Python's dot leaves out.
  YARD_TRY(Pcre2Code code, compile_pcre2(form.expression, PCRE2_NEWLINE_LF, options));
  auto program = std::make_unique<Program>();
  program->code = std::move(code);
  return PythonRegex(std::move(program));
}

int PythonRegex::group_count() const {
  std::uint32_t count = 0;
  pcre2_pattern_info(program_->code.get(), PCRE2_INFO_CAPTURECOUNT, &count);
  return static_cast<int>(count);
}

PythonRegex::Match PythonRegex::search(std::string_view text) {
  if (program_->data == nullptr) {
    program_->prepare();
  }
  const int result = program_->run(text);
  if (result < 0) {
    const bool is_limit = result == PCRE2_ERROR_MATCHLIMIT || result == PCRE2_ERROR_DEPTHLIMIT ||
                          result == PCRE2_ERROR_HEAPLIMIT || result == PCRE2_ERROR_JIT_STACKLIMIT;
    return {.outcome = is_limit ? Outcome::kLimit : Outcome::kNone};
  }
  Match match{.outcome = Outcome::kFound};
  const PCRE2_SIZE* const ends = pcre2_get_ovector_pointer(program_->data.get());
  // The result counts pairs that were set; 0 means that there were more than two.
  match.has_group = result != 1 && ends[2] != PCRE2_UNSET && ends[2] <= ends[3];
  if (match.has_group) {
    match.group = text.substr(ends[2], ends[3] - ends[2]);
  }
  return match;
}

}  // namespace trainyard
