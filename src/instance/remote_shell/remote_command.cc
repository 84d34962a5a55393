// SPDX-License-Identifier: Apache-2.0
#include "instance/remote_shell/remote_command.h"

#include <algorithm>

#include "base/text.h"
#include "instance/launch/words.h"

namespace trainyard::instance {
namespace {

bool is_name(std::string_view text) {
  const auto is_part = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !text.empty() && (text[0] < '0' || text[0] > '9') &&
         std::all_of(text.begin(), text.end(), is_part);
}

Error needs_shell(std::string_view text) {
  return {Code::kInvalidArgument,
          "the remote shell runs plain commands only, not: " + std::string(text)};
}

// "$NAME", "${NAME}" and "${NAME:-}" are all that mpirun writes.
Result<std::string> expanded(std::string_view text, const Variables& environment) {
  std::string out;
  while (!text.empty()) {
    const std::size_t dollar = text.find('$');
    out += text.substr(0, dollar);
    if (dollar == std::string_view::npos) {
      break;
    }
    text.remove_prefix(dollar + 1);
    const bool braced = text.starts_with('{');
    const std::size_t end = braced ? text.find('}') : text.find_first_of(":; \t/");
    std::string_view name = text.substr(braced ? 1 : 0, braced ? end - 1 : end);
    if (name.ends_with(":-")) {
      name.remove_suffix(2);
    }
    if ((braced && end == std::string_view::npos) || !is_name(name)) {
      return needs_shell(text);
    }
    const auto found = environment.find(std::string(name));
    out += found == environment.end() ? std::string() : found->second;
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + (braced ? 1 : 0));
  }
  return out;
}

// True when the statement was about the environment, and has been applied.
Result<bool> applied(std::string_view statement, Variables& environment) {
  constexpr std::string_view kExport = "export ";
  if (statement.empty() ||
      (statement.starts_with(kExport) && is_name(trim(statement.substr(kExport.size()))))) {
    return true;  // every variable of ours is exported
  }
  const std::size_t equals = statement.find('=');
  if (equals == std::string_view::npos || !is_name(statement.substr(0, equals))) {
    return false;
  }
  YARD_TRY(std::string value, expanded(trim(statement.substr(equals + 1)), environment));
  environment[std::string(statement.substr(0, equals))] = std::move(value);
  return true;
}

std::string without_protection(const std::string& word) {
  const bool is_protected = word.size() >= 2 && word.front() == '"' && word.back() == '"';
  return is_protected ? word.substr(1, word.size() - 2) : word;
}

}  // namespace

Result<RemoteCommand> remote_command(const std::vector<std::string>& words,
                                     const Variables& environment) {
  RemoteCommand command{.argv = {}, .environment = environment};
  if (words.empty()) {
    return Error{Code::kInvalidArgument, "a remote command has no words"};
  }
  for (const std::string_view part : split(words[0], ';')) {
    const std::string_view statement = trim(part);
    YARD_TRY(const bool done, applied(statement, command.environment));
    if (done) {
      continue;
    }
    if (!command.argv.empty()) {
      return needs_shell(statement);
    }
    YARD_TRY(command.argv, split_words(statement));
  }
  if (command.argv.empty()) {
    return needs_shell(words[0]);
  }
  for (std::size_t i = 1; i < words.size(); ++i) {
    command.argv.push_back(without_protection(words[i]));
  }
  return command;
}

}  // namespace trainyard::instance
