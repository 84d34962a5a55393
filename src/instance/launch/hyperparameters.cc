// SPDX-License-Identifier: Apache-2.0
#include "instance/launch/hyperparameters.h"

#include <algorithm>

#include "base/encoding.h"
#include "base/text.h"

namespace trainyard::instance {

using nlohmann::json;

namespace {

std::string ascii_json(const json& value) {
  return value.dump(-1, ' ', true, json::error_handler_t::replace);
}

// Python's repr() of a string: single quotes unless the text has some and no double ones.
std::string python_quoted(const std::string& text) {
  const bool double_quotes =
      text.find('\'') != std::string::npos && text.find('"') == std::string::npos;
  const char quote = double_quotes ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    switch (c) {
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\\':
        out += "\\\\";
        break;
      default:
        if (c == quote) {
          out += '\\';
        }
        out += c;
    }
  }
  return out + quote;
}

std::string python_text(const json& value) {
  switch (value.type()) {
    case json::value_t::null:
      return "None";
    case json::value_t::boolean:
      return value.get<bool>() ? "True" : "False";
    case json::value_t::string:
      return python_quoted(value.get<std::string>());
    case json::value_t::array: {
      std::vector<std::string> items;
      for (const json& item : value) {
        items.push_back(python_text(item));
      }
      return "[" + join(items, ", ") + "]";
    }
    case json::value_t::object: {
      std::vector<std::string> items;
      for (const auto& [key, item] : value.items()) {
        items.push_back(python_quoted(key) + ": " + python_text(item));
      }
      return "{" + join(items, ", ") + "}";
    }
    default:
      return value.dump();
  }
}

std::string argument_text(const Hyperparameter& parameter) {
  const json& value = parameter.value;
  if (value.is_string()) {
    return value.get<std::string>();
  }
  if (value.is_number()) {
    return std::string(trim(parameter.raw));
  }
  if (value.is_null()) {
    return {};
  }
  if (!value.is_object()) {
    return python_text(value);
  }
  std::vector<std::string> items;
  for (const auto& [key, item] : value.items()) {
    items.push_back(key + "=" + (item.is_string() ? item.get<std::string>() : python_text(item)));
  }
  return join(items, ",");
}

Hyperparameters only(const Hyperparameters& all, bool platform) {
  Hyperparameters chosen;
  std::copy_if(all.begin(), all.end(), std::back_inserter(chosen),
               [&](const Hyperparameter& p) { return is_for_platform(p.key) == platform; });
  return chosen;
}

}  // namespace

Hyperparameters decode_hyperparameters(const std::map<std::string, std::string>& request) {
  Hyperparameters decoded;
  for (const auto& [key, raw] : request) {
    json value = json::parse(raw, nullptr, /*allow_exceptions=*/false);
    decoded.push_back({key, raw, value.is_discarded() ? json(raw) : std::move(value)});
  }
  return decoded;
}

bool is_for_platform(std::string_view key) {
  return key.starts_with("sagemaker_");
}

Hyperparameters users(const Hyperparameters& all) {
  return only(all, false);
}

Hyperparameters platforms(const Hyperparameters& all) {
  return only(all, true);
}

const json* find_value(const Hyperparameters& all, std::string_view key) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Hyperparameter& p) { return p.key == key; });
  return found == all.end() ? nullptr : &found->value;
}

std::string find_text(const Hyperparameters& all, std::string_view key) {
  const json* value = find_value(all, key);
  if (value == nullptr || value->is_null()) {
    return {};
  }
  return value->is_string() ? value->get<std::string>() : value->dump();
}

bool find_flag(const Hyperparameters& all, std::string_view key) {
  return equal_ignoring_case(trim(find_text(all, key)), "true");
}

std::vector<std::string> command_line(const Hyperparameters& parameters) {
  std::vector<std::string> arguments;
  for (const Hyperparameter& parameter : parameters) {
    if (parameter.key.empty()) {
      continue;
    }
    arguments.push_back((utf8_length(parameter.key) > 1 ? "--" : "-") + parameter.key);
    if (std::string text = argument_text(parameter); !text.empty()) {
      arguments.push_back(std::move(text));
    }
  }
  return arguments;
}

std::string environment_text(const Hyperparameter& parameter) {
  const json& value = parameter.value;
  if (value.is_string()) {
    return value.get<std::string>();
  }
  if (value.is_null()) {
    return {};
  }
  return value.is_number() ? std::string(trim(parameter.raw)) : ascii_json(value);
}

std::string as_json_object(const Hyperparameters& parameters) {
  std::vector<std::string> members;
  for (const Hyperparameter& parameter : parameters) {
    const std::string value = parameter.value.is_number() ? std::string(trim(parameter.raw))
                                                          : ascii_json(parameter.value);
    members.push_back(ascii_json(json(parameter.key)) + ":" + value);
  }
  return "{" + join(members, ",") + "}";
}

}  // namespace trainyard::instance
