// SPDX-License-Identifier: Apache-2.0
// Reads the command line of a verb, as its caller has described it with CLI11, whose exceptions end
// here: what is wrong, and a call for help, are values. Prints nothing but by show().
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's
class App;
}

namespace trainyard {

// What there is to say instead of doing anything.
struct Usage {
  bool is_wrong = false;  // else it is the help that was asked for
  std::string text;       // the help; or what is wrong and how to get help. Whole lines
  std::string what = {};  // what is wrong, without a line end

  int exit_code() const { return is_wrong ? 2 : 0; }
};

// Fills what `app` has described from `args`, which are those after the verb.
std::optional<Usage> read_command_line(CLI::App& app, const std::vector<std::string>& args);

// The text, to standard output or error; gives the exit code.
int show(const Usage& usage);
// The same for a verb that says what is wrong in one line: "<verb>: <what>".
int show(const Usage& usage, const std::string& verb);

}  // namespace trainyard
