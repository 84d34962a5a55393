// SPDX-License-Identifier: Apache-2.0
// Regular expressions as Python's `re` reads them, run by PCRE2: what MetricDefinitions hold. The
// API compiles them to refuse what is none; the instance searches log lines with them. Searching is
// just-in-time compiled where the kernel allows it, and bounded: a search that needs more steps
// than its text is worth ends as kLimit instead of going on.
//
// Differences from Python that are left (docs/metrics.md tells users):
//   - what PCRE2 has beyond Python (\h, \p{L}, \K, (?<name>...), recursion, ...) is accepted;
//     \Q, \E, \C, \c and (*VERBS) are not
//   - the flag (?a) holds for the whole expression; (?L) is refused
//   - \s does not match the separators U+001C to U+001F
//   - of \N{NAME} nothing is known
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace trainyard {

class PythonRegex {
 public:
  // kInvalidArgument says what is wrong and at which offset.
  static Result<PythonRegex> compile(std::string_view expression);

  PythonRegex(PythonRegex&&) noexcept;
  PythonRegex& operator=(PythonRegex&&) noexcept;
  ~PythonRegex();

  int group_count() const;

  enum class Outcome { kNone, kFound, kLimit };
  struct Match {
    Outcome outcome = Outcome::kNone;
    bool has_group = false;       // group 1 took part
    std::string_view group = {};  // its text, inside the text that was searched
  };
  // The first match anywhere in `text`, which must be valid UTF-8. One thread at a time.
  Match search(std::string_view text);

 private:
  struct Program;
  explicit PythonRegex(std::unique_ptr<Program> program);
  std::unique_ptr<Program> program_;
};

// The expression in PCRE2's syntax, for PCRE2_UTF with or without PCRE2_UCP. Only what the two
// languages read differently is changed.
struct Pcre2Form {
  std::string expression;
  bool is_ascii = false;  // \d, \w, \s and \b know ASCII only: (?a)
};
Result<Pcre2Form> python_to_pcre2(std::string_view expression);

}  // namespace trainyard
