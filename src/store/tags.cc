// SPDX-License-Identifier: Apache-2.0
#include "store/tags.h"

#include "base/encoding.h"
#include "base/text.h"
#include "s3/xml.h"

namespace trainyard::store {
namespace {

constexpr std::size_t kLongestKey = 128;  // characters
constexpr std::size_t kLongestValue = 256;

Error bad_tag(std::string message) {
  return Error{Code::kInvalidArgument, std::move(message), "tag"};
}

Result<void> add(Tags& tags, std::string key, std::string value, std::size_t most) {
  if (!is_utf8(key) || key.empty() || utf8_length(key) > kLongestKey) {
    return bad_tag("The TagKey you have provided is invalid: 1 to 128 characters");
  }
  if (!is_utf8(value) || utf8_length(value) > kLongestValue) {
    return bad_tag("The TagValue you have provided is invalid: at most 256 characters");
  }
  if (!tags.emplace(std::move(key), std::move(value)).second) {
    return bad_tag("Cannot provide multiple Tags with the same key");
  }
  return tags.size() > most
             ? Error{Code::kInvalidArgument, "Tags cannot be more than " + std::to_string(most),
                     "bad-request"}
             : Result<void>();
}

}  // namespace

Result<Tags> parse_tag_header(std::string_view text, std::size_t most) {
  Tags tags;
  for (const std::string_view pair : split(text, '&')) {
    if (pair.empty()) {
      continue;
    }
    const std::size_t equals = std::min(pair.find('='), pair.size());
    auto key = form_decode(pair.substr(0, equals));
    auto value = form_decode(pair.substr(std::min(equals + 1, pair.size())));
    if (!key || !value) {
      return bad_tag(
          "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL "
          "query parameters without tag name duplicates.");
    }
    YARD_TRY(add(tags, *std::move(key), *std::move(value), most));
  }
  return tags;
}

Result<Tags> parse_tag_document(const std::string& text, std::size_t most) {
  YARD_TRY(const s3::XmlNode root, s3::parse_xml(text));
  const s3::XmlNode* const set = root.child("TagSet");
  if (root.name != "Tagging" || set == nullptr) {
    return Error{Code::kInvalidArgument, "the body is not a Tagging with a TagSet", "xml"};
  }
  Tags tags;
  for (const s3::XmlNode& tag : set->children) {
    if (tag.name == "Tag") {
      YARD_TRY(add(tags, std::string(tag.get("Key")), std::string(tag.get("Value")), most));
    }
  }
  return tags;
}

std::string tag_document(const Tags& tags) {
  s3::XmlWriter xml("Tagging");
  xml.open("TagSet");
  for (const auto& [key, value] : tags) {
    xml.open("Tag").add("Key", key).add("Value", value).close();
  }
  return xml.finish();
}

}  // namespace trainyard::store
