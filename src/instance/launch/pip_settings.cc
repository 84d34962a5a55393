// SPDX-License-Identifier: Apache-2.0
#include "instance/launch/pip_settings.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <utility>

#include "base/text.h"

namespace trainyard::instance {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

std::vector<std::string> words_of(std::string_view text, std::string_view separators = kSpace) {
  std::vector<std::string> words;
  while (true) {
    const std::size_t begin = text.find_first_not_of(separators);
    if (begin == std::string_view::npos) {
      return words;
    }
    text.remove_prefix(begin);
    words.emplace_back(text.substr(0, text.find_first_of(separators)));
    text.remove_prefix(words.back().size());
  }
}

std::string variable_of(std::string_view key) {
  std::string name = "PIP_" + upper(key);
  std::ranges::replace(name, '-', '_');
  return name;
}

// As pip reads words for yes and no; what is neither, it refuses.
bool is_no(std::string_view value) {
  static constexpr std::array<std::string_view, 6> kWords = {"n", "no", "f", "false", "off", "0"};
  return std::find(kWords.begin(), kWords.end(), lower(value)) != kWords.end();
}

using Tell = std::function<void(const std::string& value, UvSettings&)>;

Tell argument_for_each(const std::string& option, std::string_view separators = kSpace) {
  return [=](const std::string& value, UvSettings& out) {
    for (const std::string& word : words_of(value, separators)) {
      out.arguments.push_back(option);
      out.arguments.back().append("=").append(word);
    }
  };
}

Tell argument_if_yes(const std::string& argument) {
  return [=](const std::string& value, UvSettings& out) {
    if (!is_no(value)) {
      out.arguments.push_back(argument);
    }
  };
}

Tell variables(const std::vector<std::string>& names) {
  return [=](const std::string& value, UvSettings& out) {
    for (const std::string& name : names) {
      out.variables[name] = join(words_of(value), " ");
    }
  };
}

void tell_file(const std::string& value, UvSettings& out) {
  if (value != "/dev/null") {  // pip's word for none
    out.unheard.emplace_back("PIP_CONFIG_FILE");
  }
}

// Which packages come, and from where. Indexes have two names: those of uv before 0.4.23, and
// today's, which such a version would not hear.
const std::map<std::string, Tell, std::less<>>& all_settings() {
  static const std::map<std::string, Tell, std::less<>> kAll = {
      {"PIP_INDEX_URL", variables({"UV_DEFAULT_INDEX", "UV_INDEX_URL"})},
      {"PIP_EXTRA_INDEX_URL", variables({"UV_INDEX", "UV_EXTRA_INDEX_URL"})},
      {"PIP_FIND_LINKS", argument_for_each("--find-links")},
      {"PIP_NO_INDEX", argument_if_yes("--no-index")},
      {"PIP_CONFIG_FILE", tell_file},
      {"PIP_TRUSTED_HOST", variables({"UV_INSECURE_HOST"})},
      {"PIP_CONSTRAINT", argument_for_each("--constraint")},
      {"PIP_PRE", argument_if_yes("--prerelease=allow")},
      {"PIP_NO_BINARY", argument_for_each("--no-binary", ", \t\r\n")},
      {"PIP_ONLY_BINARY", argument_for_each("--only-binary", ", \t\r\n")},
      {"PIP_NO_DEPS", argument_if_yes("--no-deps")},
      {"PIP_REQUIRE_HASHES", argument_if_yes("--require-hashes")},
      {"PIP_PROXY", variables({"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"})},
      {"PIP_CLIENT_CERT", variables({"SSL_CLIENT_CERT"})}};
  return kAll;
}

}  // namespace

// Of Python's configparser: sections, `key = value` or `key: value`, indented lines that go on with
// the value, comments on lines of their own.
Variables settings_of_pip_file(std::string_view text) {
  std::map<std::string, Variables, std::less<>> sections;
  std::string section;
  std::string* value = nullptr;
  for (const std::string_view line : split(text, '\n')) {
    const std::string_view content = trim(line);
    if (content.empty() || content.front() == '#' || content.front() == ';') {
      continue;
    }
    if (line.front() == ' ' || line.front() == '\t') {
      if (value != nullptr) {
        *value += " " + std::string(content);
      }
      continue;
    }
    value = nullptr;
    const std::size_t equals = content.find_first_of("=:");
    if (content.front() == '[') {
      section = content.substr(1, content.find(']') - 1);
    } else if (equals != std::string_view::npos) {
      value = &sections[section][variable_of(trim(content.substr(0, equals)))];
      *value = trim(content.substr(equals + 1));
    }
  }
  Variables settings = std::move(sections["install"]);
  settings.merge(sections["global"]);
  return settings;
}

Variables package_settings(const Variables& environment, const Variables& files) {
  Variables settings;
  for (const auto& [name, tell] : all_settings()) {
    for (const Variables* source : {&environment, &files}) {
      const auto found = source->find(name);
      if (found != source->end() && !found->second.empty()) {
        settings.insert(*found);
      }
    }
  }
  return settings;
}

UvSettings uv_settings(const Variables& pip) {
  UvSettings out;
  for (const auto& [name, value] : pip) {
    const auto known = all_settings().find(name);
    if (known != all_settings().end()) {
      known->second(value, out);
    }
  }
  return out;
}

}  // namespace trainyard::instance
