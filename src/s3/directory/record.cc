// SPDX-License-Identifier: Apache-2.0
#include "s3/directory/record.h"

#include <functional>

#include "base/encoding.h"
#include "base/text.h"
#include "s3/checksum.h"

namespace trainyard::s3 {
namespace {

using Words = std::vector<std::string>;

constexpr std::int64_t kMostParts = 10'000;

void put_line(std::string& out, const Words& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    out += (i == 0 ? "" : " ") + uri_encode(words[i]);
  }
  out += '\n';
}

void put_headers(std::string& out, const std::string& content_type,
                 const std::map<std::string, std::string>& headers) {
  if (!content_type.empty()) {
    put_line(out, {"t", content_type});
  }
  for (const auto& [name, value] : headers) {
    put_line(out, {"h", name, value});
  }
}

Error broken() {
  return Error{Code::kCorrupt, "the index holds a description that is broken"};
}

// Calls `take` with the words of each line; false means that it does not know the line.
Result<void> each_line(std::string_view text, const std::function<bool(const Words&)>& take) {
  for (const std::string_view line : split(text, '\n')) {
    if (line.empty()) {
      continue;
    }
    Words words;
    for (const std::string_view word : split(line, ' ')) {
      YARD_TRY(words.emplace_back(), uri_decode(word));
    }
    if (!take(words)) {
      return broken();
    }
  }
  return {};
}

bool take_header(const Words& words, std::string& content_type,
                 std::map<std::string, std::string>& headers) {
  if (words[0] == "t" && words.size() == 2) {
    content_type = words[1];
    return true;
  }
  if (words[0] == "h" && words.size() == 3) {
    headers[words[1]] = words[2];
    return true;
  }
  return false;
}

void put_tags(std::string& out, const std::map<std::string, std::string>& tags) {
  for (const auto& [name, value] : tags) {
    put_line(out, {"g", name, value});
  }
}

bool take_tag(const Words& words, std::map<std::string, std::string>& tags) {
  if (words[0] != "g" || words.size() != 3) {
    return false;
  }
  tags[words[1]] = words[2];
  return true;
}

bool take_checksum(const Words& words, std::vector<Checksum>& checksums) {
  const auto kind = words.size() >= 3 ? checksum_kind(words[1]) : std::nullopt;
  if (words[0] != "c" || !kind) {
    return false;
  }
  checksums.push_back({.kind = *kind, .base64 = words[2], .composite = words.size() == 4});
  return true;
}

bool are_alike(const ObjectPart& a, const ObjectPart& b) {
  return a.size == b.size && a.checksums.empty() && b.checksums.empty();
}

// Parts without checksums are many of one size and a rest: a line for each run of them.
std::string encode_parts(const std::vector<ObjectPart>& parts) {
  std::string out;
  for (std::size_t first = 0; first < parts.size();) {
    std::size_t end = first + 1;
    while (end < parts.size() && are_alike(parts[first], parts[end])) {
      ++end;
    }
    Words words{"p", std::to_string(parts[first].size), std::to_string(end - first)};
    for (const Checksum& checksum : parts[first].checksums) {
      words.emplace_back(checksum_name(checksum.kind));
      words.push_back(checksum.base64);
    }
    put_line(out, words);
    first = end;
  }
  return out;
}

std::string_view before_parts(std::string_view text) {
  if (text.starts_with("p ")) {
    return {};
  }
  const std::size_t at = text.find("\np ");
  return at == std::string_view::npos ? text : text.substr(0, at + 1);
}

bool take_parts(const Words& words, std::vector<ObjectPart>& parts) {
  if (words[0] != "p" || words.size() < 3 || words.size() % 2 == 0) {
    return false;
  }
  const auto size = parse_int(words[1]);
  const auto count = parse_int(words[2]);
  if (!size || !count || *size < 0 || *count < 1 || *count > kMostParts) {
    return false;
  }
  ObjectPart part{.size = static_cast<std::uint64_t>(*size)};
  for (std::size_t i = 3; i < words.size(); i += 2) {
    const auto kind = checksum_kind(words[i]);
    if (!kind) {
      return false;
    }
    part.checksums.push_back({.kind = *kind, .base64 = words[i + 1]});
  }
  parts.insert(parts.end(), static_cast<std::size_t>(*count), part);
  return true;
}

}  // namespace

std::string encode_checksums(const std::vector<Checksum>& checksums) {
  std::string out;
  for (const Checksum& checksum : checksums) {
    Words words{"c", std::string(checksum_name(checksum.kind)), checksum.base64};
    if (checksum.composite) {
      words.emplace_back("composite");
    }
    put_line(out, words);
  }
  return out;
}

Result<std::vector<Checksum>> decode_checksums(std::string_view text) {
  std::vector<Checksum> checksums;
  YARD_TRY(each_line(text, [&](const Words& words) { return take_checksum(words, checksums); }));
  return checksums;
}

std::string encode_description(const ObjectInfo& info) {
  std::string out;
  put_headers(out, info.content_type, info.headers);
  put_tags(out, info.tags);
  return out + encode_checksums(info.checksums) + encode_parts(info.parts);
}

Result<void> decode_description(std::string_view text, ObjectInfo& info, Parts parts) {
  if (parts == Parts::kSkip) {
    text = before_parts(text);
  }
  return each_line(text, [&](const Words& words) {
    return take_header(words, info.content_type, info.headers) || take_tag(words, info.tags) ||
           take_checksum(words, info.checksums) || take_parts(words, info.parts);
  });
}

Result<std::vector<Checksum>> described_checksums(std::string_view text) {
  if (text.empty()) {
    return std::vector<Checksum>();  // of a million keys in a listing most have none
  }
  std::string lines;
  for (const std::string_view line : split(before_parts(text), '\n')) {
    if (line.starts_with("c ")) {
      lines.append(line).append("\n");
    }
  }
  return decode_checksums(lines);
}

std::string encode_options(const PutOptions& options) {
  std::string out;
  put_headers(out, options.content_type, options.headers);
  put_tags(out, options.tags);
  for (const HashKind kind : options.compute) {
    put_line(out, {"k", std::string(checksum_name(kind))});
  }
  if (options.full_object_checksum) {
    put_line(out, {"f"});
  }
  if (options.only_if_absent) {
    put_line(out, {"a"});
  }
  if (!options.owner.empty()) {
    put_line(out, {"o", options.owner});
  }
  return out;
}

Result<PutOptions> decode_options(std::string_view text) {
  PutOptions options;
  YARD_TRY(each_line(text, [&](const Words& words) {
    if (words[0] == "f") {
      return options.full_object_checksum = true;
    }
    if (words[0] == "a") {
      return options.only_if_absent = true;
    }
    if (words[0] == "o" && words.size() == 2) {
      options.owner = words[1];
      return true;
    }
    if (const auto kind =
            words.size() == 2 && words[0] == "k" ? checksum_kind(words[1]) : std::nullopt) {
      options.compute.push_back(*kind);
      return true;
    }
    return take_tag(words, options.tags) ||
           take_header(words, options.content_type, options.headers);
  }));
  return options;
}

}  // namespace trainyard::s3
