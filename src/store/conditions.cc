// SPDX-License-Identifier: Apache-2.0
#include "store/conditions.h"

#include <algorithm>
#include <chrono>

#include "base/text.h"
#include "s3/object_headers.h"

namespace trainyard::store {
namespace {

bool matches(std::string_view list, const std::string& etag) {
  for (std::string_view item : split(list, ',')) {
    item = trim(item);
    if (item.starts_with("W/")) {
      item.remove_prefix(2);
    }
    if (item == "*" || s3::unquote_etag(item) == etag) {
      return true;
    }
  }
  return false;
}

// HTTP dates have whole seconds.
std::optional<bool> modified_since(const std::string* date, const s3::ObjectInfo& info) {
  const auto since = date == nullptr ? Result<WallTime>(Error{}) : parse_http_date(*date);
  if (!since) {
    return std::nullopt;
  }
  return std::chrono::floor<std::chrono::seconds>(info.last_modified) > *since;
}

std::optional<std::uint64_t> digits(std::string_view text) {
  const bool good =
      !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  const auto number = good ? parse_int(text) : Result<std::int64_t>(Error{});
  return number ? std::optional(static_cast<std::uint64_t>(*number)) : std::nullopt;
}

}  // namespace

Verdict judge(const http::Headers& headers, std::string_view prefix, const s3::ObjectInfo& info) {
  const auto find = [&](std::string_view name) {
    return headers.find(std::string(prefix) + std::string(name));
  };
  if (const std::string* wanted = find("if-match")) {
    if (!matches(*wanted, info.etag)) {
      return Verdict::kPreconditionFailed;
    }
  } else if (modified_since(find("if-unmodified-since"), info).value_or(false)) {
    return Verdict::kPreconditionFailed;
  }
  if (const std::string* unwanted = find("if-none-match")) {
    return matches(*unwanted, info.etag) ? Verdict::kNotModified : Verdict::kGo;
  }
  return modified_since(find("if-modified-since"), info).value_or(true) ? Verdict::kGo
                                                                        : Verdict::kNotModified;
}

bool may_be_partial(const http::Headers& headers, const s3::ObjectInfo& info) {
  const std::string* wanted = headers.find("if-range");
  if (wanted == nullptr) {
    return true;
  }
  if (const auto date = parse_http_date(*wanted)) {
    return std::chrono::floor<std::chrono::seconds>(info.last_modified) == *date;
  }
  return trim(*wanted) == s3::quote_etag(info.etag);
}

Result<std::optional<s3::ByteRange>> parse_range(std::string_view header, std::uint64_t size) {
  constexpr std::string_view kUnit = "bytes=";
  const std::optional<s3::ByteRange> whole;
  if (!header.starts_with(kUnit)) {
    return whole;
  }
  const std::string_view text = trim(header.substr(kUnit.size()));
  const std::size_t dash = text.find('-');
  if (dash == std::string_view::npos) {
    return whole;
  }
  const auto first = digits(text.substr(0, dash));
  const auto last = digits(text.substr(dash + 1));
  const bool is_suffix = dash == 0 && last;
  const bool is_open = first && dash + 1 == text.size();
  if (!is_suffix && !is_open && !(first && last && *first <= *last)) {
    return whole;
  }
  const std::uint64_t begin = is_suffix ? size - std::min(size, *last) : *first;
  if (begin >= size) {
    return Error{Code::kInvalidArgument, "The requested range is not satisfiable", "range"};
  }
  const std::uint64_t end = is_suffix || is_open ? size - 1 : std::min(*last, size - 1);
  return std::optional(s3::ByteRange{.first = begin, .last = end});
}

Result<std::optional<s3::ByteRange>> range_of_part(const s3::ObjectInfo& info, int number) {
  const auto index = static_cast<std::size_t>(number) - 1;
  const std::vector<s3::ObjectPart> whole{{.size = info.size}};
  const std::vector<s3::ObjectPart>& parts = info.parts.empty() ? whole : info.parts;
  if (number == 1 && info.size == 0) {
    return std::optional<s3::ByteRange>();
  }
  if (index >= parts.size() || parts[index].size == 0) {
    return Error{Code::kInvalidArgument, "The requested partnumber is not satisfiable",
                 "part-range"};
  }
  std::uint64_t first = 0;
  for (std::size_t i = 0; i < index; ++i) {
    first += parts[i].size;
  }
  return std::optional(s3::ByteRange{.first = first, .last = first + parts[index].size - 1});
}

}  // namespace trainyard::store
