// SPDX-License-Identifier: Apache-2.0
// One line of a diagnosis.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainyard::doctor {

enum class Verdict { kOk, kWarn, kBad };  // from good to bad

struct Finding {
  std::string check;  // "efa.device": the same words in every version
  Verdict verdict = Verdict::kOk;
  std::string meaning;      // what is so, and what follows from it
  std::string remedy = {};  // what to do; of kOk, empty
};
using Findings = std::vector<Finding>;

std::string_view name_of(Verdict verdict);  // "ok", "warn", "bad"
Verdict worst(const Findings& findings);

// A line or two for each, for people.
std::string to_text(const Findings& findings);
// {"verdict": ..., "checks": [{"check", "verdict", "meaning", "remedy"}, ...]}
std::string to_json(const Findings& findings);

}  // namespace trainyard::doctor
