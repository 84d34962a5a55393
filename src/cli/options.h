// SPDX-License-Identifier: Apache-2.0
// The command line as a value. CLI11 stays inside options.cc.
#pragma once

#include <iosfwd>
#include <string>
#include <variant>
#include <vector>

namespace trainyard::cli {

enum class Verb { kSubmit, kList, kDescribe, kLogs, kWhy, kStop, kSignal, kDelete };

struct Options {
  Verb verb = Verb::kList;
  std::string endpoint = {};  // empty: from the environment
  bool json = false;          // for scripts: one JSON document, or one a line for logs

  std::string job = {};                           // name, of all verbs on one job
  std::string file = {};                          // of submit; "-" is standard input
  std::string name = {};                          // submit --name; list --name-contains
  std::vector<std::string> hyperparameters = {};  // "key=value", in order
  std::string signal = {};                        // signal: "USR1" or "USR2"
  bool wait = false;                              // submit, stop
  bool follow = false;                            // logs
  std::string status = {};                        // list
  int limit = 20;                                 // list
};

// The options, or the exit code when there is nothing left to do: help was printed to `out` (0), or
// the usage was wrong and `err` says how (2).
std::variant<Options, int> parse_options(const std::vector<std::string>& args, std::ostream& out,
                                         std::ostream& err);

}  // namespace trainyard::cli
