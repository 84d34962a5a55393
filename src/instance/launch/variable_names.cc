// SPDX-License-Identifier: Apache-2.0
#include "instance/launch/variable_names.h"

#include <algorithm>

#include "base/text.h"

namespace trainyard::instance {
namespace {

using Keys = std::vector<std::string>;
using Sharers = std::map<std::string, Keys>;  // by the name that they share

// Letters of other scripts stay: Python reads them, and a shell would have no name for them anyway.
bool is_plain(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z');
}

std::string plain(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !is_plain(c); }, '_');
  return name;
}

bool can_be_exact(std::string_view key) {
  return !key.empty() && key.find('=') == std::string_view::npos;
}

std::string quoted(const Keys& keys) {
  Keys quoted;
  std::transform(keys.begin(), keys.end(), std::back_inserter(quoted),
                 [](const std::string& key) { return "'" + key + "'"; });
  return join(quoted, ", ");
}

class Namer {
 public:
  Namer(std::string_view prefix, std::string_view kind, const Variables& values)
      : prefix_(prefix), kind_(kind), values_(values) {}

  NamedVariables run() {
    for (const auto& [key, value] : values_) {
      if (can_be_exact(key)) {
        exact_[exact_name(key)].push_back(key);
      }
      if (!key.empty()) {
        plain_[plain(exact_name(key))].push_back(key);
      }
    }
    set_exact();
    set_plain();
    note_odd_keys();
    return std::move(out_);
  }

 private:
  std::string exact_name(std::string_view key) const { return prefix_ + upper(key); }

  void set_exact() {
    for (const auto& [name, keys] : exact_) {
      out_.variables[name] = values_.at(keys.back());
    }
  }

  void set_plain() {
    for (const auto& [name, keys] : plain_) {
      const auto owner = exact_.find(name);
      if (owner == exact_.end() && keys.size() == 1) {
        out_.variables[name] = values_.at(keys.front());
      }
      if (keys.size() > 1) {
        note("s " + quoted(keys) + " share the variable " + name + ": " +
             (owner == exact_.end() ? std::string("it is not set")
                                    : "it holds that of '" + owner->second.back() + "'"));
      }
    }
  }

  void note_odd_keys() {
    for (const auto& [key, value] : values_) {
      if (key.empty()) {
        note(" '' has no name: neither a variable nor an argument is made of it");
      } else if (!can_be_exact(key)) {
        const std::string name = plain(exact_name(key));
        note(" '" + key + "' holds '=', which ends the name of a variable" +
             (out_.variables.count(name) > 0 ? ": it is " + name : std::string()));
      }
    }
  }

  void note(const std::string& text) { out_.notes.push_back(std::string(kind_) + text + "."); }

  std::string prefix_;
  std::string_view kind_;
  const Variables& values_;
  Sharers exact_;
  Sharers plain_;
  NamedVariables out_;
};

}  // namespace

NamedVariables name_variables(std::string_view prefix, std::string_view kind,
                              const Variables& values) {
  return Namer(prefix, kind, values).run();
}

}  // namespace trainyard::instance
