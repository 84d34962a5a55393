// SPDX-License-Identifier: Apache-2.0
// FilterLogEvents: the events of several streams in one sequence by time, as far as they match a
// pattern. One call looks at a bounded number of bytes; what remains is the token's, so that a rare
// word in 20 GB costs many short calls and never a long one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "control/logs/log_input.h"
#include "control/logs/log_store.h"

namespace trainyard::control {

// A filter pattern of CloudWatch's for unstructured text: every term must occur in the event, of
// ?terms at least one, of -terms none. "Quoted phrases" are terms that may hold blanks; in them, a
// backslash makes the next character stand for itself. Case counts. An empty pattern matches
// everything.
class FilterPattern {
 public:
  // kInvalidArgument for an open quote, and for JSON ({...}), column ([...]) and regex (%...%)
  // patterns, which are not supported.
  static Result<FilterPattern> parse(std::string_view text);

  bool matches(std::string_view message) const;

 private:
  std::vector<std::string> all_;
  std::vector<std::string> any_;
  std::vector<std::string> none_;
};

Result<nlohmann::json> filter_log_events(LogStore& logs, const LogInput& input);

}  // namespace trainyard::control
