// SPDX-License-Identifier: Apache-2.0
#include "api/answer_json.h"

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "api/model.h"
#include "formats/json.h"

namespace trainyard::api {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 3> kWords = {"NaN", "Infinity", "-Infinity"};

bool is_word(const json& value) {
  if (!value.is_string()) {
    return false;
  }
  const auto& text = value.get_ref<const std::string&>();
  return std::find(kWords.begin(), kWords.end(), text) != kWords.end();
}

// Calls `visit` with each word of `value` that stands for a number.
template <typename Json, typename Visit>
void for_each_word(const Shape& shape, Json& value, const Visit& visit) {
  if (shape.kind == ShapeKind::kFloat && is_word(value)) {
    visit(value);
  } else if (shape.kind == ShapeKind::kStructure && value.is_object()) {
    for (const Member& member : shape.members) {
      if (const auto found = value.find(member.name); found != value.end()) {
        for_each_word(shapes()[member.shape], *found, visit);
      }
    }
  } else if ((shape.kind == ShapeKind::kList && value.is_array()) ||
             (shape.kind == ShapeKind::kMap && value.is_object())) {
    for (auto& item : value) {
      for_each_word(shapes()[shape.item], item, visit);
    }
  }
}

// What no text of a user has: "number:" with more colons than any in there.
std::string mark_for(std::string_view text) {
  constexpr std::string_view kStart = "number";
  std::size_t longest = 0;
  for (std::size_t at = text.find(kStart); at != std::string_view::npos;
       at = text.find(kStart, at)) {
    at += kStart.size();
    const std::size_t end = std::min(text.find_first_not_of(':', at), text.size());
    longest = std::max(longest, end - at);
    at = end;
  }
  return std::string(kStart) + std::string(longest + 1, ':');
}

// Strings that begin with the mark lose it and their quotes: they are words.
std::string unquote_words(std::string_view text, const std::string& mark) {
  const std::string quoted = '"' + mark;
  std::string out;
  out.reserve(text.size());
  while (true) {
    const std::size_t at = text.find(quoted);
    out += text.substr(0, at);
    if (at == std::string_view::npos) {
      return out;
    }
    text.remove_prefix(at + quoted.size());
    const std::size_t end = text.find('"');
    out += text.substr(0, end);
    text.remove_prefix(end + 1);
  }
}

}  // namespace

NonFinite non_finite_for(std::string_view user_agent) {
  const bool is_botocore = user_agent.find("Botocore") != std::string_view::npos;
  return is_botocore && !user_agent.starts_with("aws-cli/") ? NonFinite::kWords
                                                            : NonFinite::kStrings;
}

std::string write_answer(std::string_view service, std::string_view operation, const json& answer,
                         NonFinite form) {
  std::string text = dump_json(answer);
  const Operation* found = find_operation(service, operation);
  if (form == NonFinite::kStrings || found == nullptr || found->output == kNoShape) {
    return text;
  }
  const Shape& shape = shapes()[found->output];
  bool has_words = false;
  for_each_word(shape, answer, [&](const json&) { has_words = true; });
  if (!has_words) {
    return text;
  }
  const std::string mark = mark_for(text);
  json marked = answer;
  for_each_word(shape, marked, [&](json& word) { word = mark + word.get<std::string>(); });
  return unquote_words(dump_json(marked), mark);
}

}  // namespace trainyard::api
