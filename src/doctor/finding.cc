// SPDX-License-Identifier: Apache-2.0
#include "doctor/finding.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace trainyard::doctor {

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kWarn:
      return "warn";
    case Verdict::kBad:
      return "bad";
  }
  return "bad";
}

Verdict worst(const Findings& findings) {
  const auto found = std::ranges::max_element(findings, {}, &Finding::verdict);
  return found == findings.end() ? Verdict::kOk : found->verdict;
}

std::string to_text(const Findings& findings) {
  std::string text;
  for (const Finding& one : findings) {
    text += fmt::format("{:<5}{:<20}{}\n", name_of(one.verdict), one.check, one.meaning);
    if (!one.remedy.empty()) {
      text += fmt::format("{:<25}-> {}\n", "", one.remedy);
    }
  }
  const auto count = [&](Verdict verdict) {
    return std::ranges::count(findings, verdict, &Finding::verdict);
  };
  return text + fmt::format("{} ok, {} to look at, {} bad\n", count(Verdict::kOk),
                            count(Verdict::kWarn), count(Verdict::kBad));
}

std::string to_json(const Findings& findings) {
  nlohmann::json checks = nlohmann::json::array();
  for (const Finding& one : findings) {
    checks.push_back({{"check", one.check},
                      {"verdict", name_of(one.verdict)},
                      {"meaning", one.meaning},
                      {"remedy", one.remedy}});
  }
  const nlohmann::json all = {{"verdict", name_of(worst(findings))}, {"checks", checks}};
  // What a machine calls its interfaces and devices may be no UTF-8.
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace trainyard::doctor
