// SPDX-License-Identifier: Apache-2.0
#include "base/command_line.h"

#include <cstdio>
#include <sstream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace trainyard {

std::optional<Usage> read_command_line(CLI::App& app, const std::vector<std::string>& args) {
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));  // it takes them from the back
  } catch (const CLI::ParseError& error) {
    std::ostringstream text;
    const bool is_wrong = app.exit(error, text, text) != 0;
    return Usage{
        .is_wrong = is_wrong, .text = text.str(), .what = is_wrong ? error.what() : std::string()};
  }
  return std::nullopt;
}

int show(const Usage& usage) {
  fmt::print(usage.is_wrong ? stderr : stdout, "{}", usage.text);
  return usage.exit_code();
}

int show(const Usage& usage, const std::string& verb) {
  return usage.is_wrong ? show({.is_wrong = true, .text = verb + ": " + usage.what + "\n"})
                        : show(usage);
}

}  // namespace trainyard
