// SPDX-License-Identifier: Apache-2.0
#include "store/post_policy.h"

#include <algorithm>
#include <array>
#include <optional>

#include <nlohmann/json.hpp>

#include "base/encoding.h"
#include "base/text.h"
#include "formats/json.h"

namespace trainyard::store {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestPolicy = std::size_t{20} << 10;
constexpr std::size_t kDeepest = 4;
constexpr std::string_view kMark = "${filename}";

// What carries the policy and its signature cannot be in it.
constexpr std::array<std::string_view, 4> kUncovered = {"policy", "x-amz-signature", "signature",
                                                        "awsaccesskeyid"};
constexpr std::string_view kIgnored = "x-ignore-";

Error bad_policy(std::string_view why) {
  return Error{Code::kInvalidArgument, "Invalid Policy: " + std::string(why), "policy-document"};
}

Error denied(std::string_view why) {
  return Error{Code::kDenied, "Invalid according to Policy: " + std::string(why), "access"};
}

Result<std::uint64_t> length_of(const json& value) {
  if (value.is_number_unsigned()) {
    return value.get<std::uint64_t>();
  }
  const auto number = value.is_string() ? parse_int(value.get_ref<const std::string&>())
                                        : Result<std::int64_t>(bad_policy("no number"));
  if (!number || *number < 0) {
    return bad_policy("content-length-range wants two numbers from 0.");
  }
  return static_cast<std::uint64_t>(*number);
}

// ["eq", "$key", "x"], ["starts-with", "$key", "x"], ["content-length-range", 1, 10].
Result<void> read_list(const json& list, PostPolicy& policy) {
  if (list.size() != 3 || !list[0].is_string()) {
    return bad_policy("a condition is a list of three.");
  }
  const std::string kind = lower(list[0].get_ref<const std::string&>());
  if (kind == "content-length-range") {
    YARD_TRY(const std::uint64_t least, length_of(list[1]));
    YARD_TRY(const std::uint64_t most, length_of(list[2]));
    policy.least = std::max(policy.least, least);
    policy.most = std::min(policy.most, most);
    return {};
  }
  if (kind != "eq" && kind != "starts-with") {
    return bad_policy("unknown condition '" + to_valid_utf8(kind) + "'.");
  }
  const bool fits = list[1].is_string() && list[2].is_string() &&
                    list[1].get_ref<const std::string&>().starts_with('$');
  if (!fits) {
    return bad_policy("a condition names a field as \"$name\", and its value as text.");
  }
  policy.conditions.push_back({.is_prefix = kind == "starts-with",
                               .field = lower(list[1].get_ref<const std::string&>().substr(1)),
                               .value = list[2].get<std::string>()});
  return {};
}

// {"acl": "private"}
Result<void> read_object(const json& object, PostPolicy& policy) {
  for (const auto& [name, value] : object.items()) {
    if (!value.is_string()) {
      return bad_policy("the value of a condition is text.");
    }
    policy.conditions.push_back({.field = lower(name), .value = value.get<std::string>()});
  }
  return object.empty() ? Result<void>(bad_policy("a condition is empty.")) : Result<void>();
}

std::string written(const PostCondition& condition) {
  return "[" + dump_json(condition.is_prefix ? "starts-with" : "eq") + ", " +
         dump_json("$" + condition.field) + ", " + dump_json(condition.value) + "]";
}

bool holds(const PostCondition& condition, const std::string& value) {
  return condition.is_prefix ? value.starts_with(condition.value) : value == condition.value;
}

bool is_covered(const PostPolicy& policy, std::string_view field) {
  return field.starts_with(kIgnored) || std::ranges::find(kUncovered, field) != kUncovered.end() ||
         std::ranges::find(policy.conditions, field, &PostCondition::field) !=
             policy.conditions.end();
}

}  // namespace

Result<PostPolicy> parse_post_policy(std::string_view base64) {
  const auto text = from_base64(base64);
  const auto document =
      text ? parse_json(*text, {.bytes = kLongestPolicy, .depth = kDeepest}) : text.error();
  if (!document || !document->is_object()) {
    return bad_policy("Invalid JSON.");
  }
  const auto expiration = document->find("expiration");
  if (expiration == document->end() || !expiration->is_string()) {
    return bad_policy("Policy missing expiration.");
  }
  const auto expires = parse_iso8601(expiration->get_ref<const std::string&>());
  if (!expires) {
    return bad_policy("Invalid 'expiration' value.");
  }
  const auto conditions = document->find("conditions");
  if (conditions == document->end() || !conditions->is_array()) {
    return bad_policy("Policy missing conditions.");
  }
  PostPolicy policy{.expires = *expires};
  for (const json& condition : *conditions) {
    if (!condition.is_array() && !condition.is_object()) {
      return bad_policy("a condition is a list or an object.");
    }
    YARD_TRY(condition.is_array() ? read_list(condition, policy) : read_object(condition, policy));
  }
  return policy;
}

Result<void> check_post_policy(const PostPolicy& policy,
                               const std::map<std::string, std::string>& fields,
                               const std::string& bucket, WallTime now) {
  if (now >= policy.expires) {
    return denied("Policy expired.");
  }
  for (const PostCondition& condition : policy.conditions) {
    const auto field = fields.find(condition.field);
    // The bucket is that of the URL, whatever a field says.
    const std::string* const value = condition.field == "bucket" ? &bucket
                                     : field == fields.end()     ? nullptr
                                                                 : &field->second;
    if (value == nullptr || !holds(condition, *value)) {
      return denied("Policy Condition failed: " + written(condition));
    }
  }
  std::string extra = is_covered(policy, "bucket") ? "" : "bucket";
  for (const auto& [name, value] : fields) {
    if (!is_covered(policy, name)) {
      extra += (extra.empty() ? "" : ", ") + to_valid_utf8(name);
    }
  }
  return extra.empty() ? Result<void>() : Result<void>(denied("Extra input fields: " + extra));
}

std::string expand_file_name(std::string_view value, std::string_view file_name) {
  std::string expanded;
  while (true) {
    const std::size_t at = value.find(kMark);
    expanded += value.substr(0, at);
    if (at == std::string_view::npos) {
      return expanded;
    }
    expanded += file_name;
    value.remove_prefix(at + kMark.size());
  }
}

std::size_t expanded_size(std::string_view value, std::string_view file_name) {
  std::size_t bytes = value.size();
  for (std::size_t at = value.find(kMark); at != std::string_view::npos;
       at = value.find(kMark, at + kMark.size())) {
    bytes += file_name.size();
    bytes -= kMark.size();
  }
  return bytes;
}

}  // namespace trainyard::store
