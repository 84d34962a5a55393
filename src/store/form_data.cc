// SPDX-License-Identifier: Apache-2.0
#include "store/form_data.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.h"

namespace trainyard::store {
namespace {

constexpr std::size_t kBuffer = std::size_t{64} << 10;
constexpr std::size_t kLongestBoundary = 70;  // RFC 2046, 5.1.1
constexpr std::string_view kLineEnd = "\r\n";
constexpr std::string_view kHeadEnd = "\r\n\r\n";

Error bad_form(std::string_view why) {
  return Error{
      Code::kInvalidArgument,
      "The body of your POST request is not well-formed multipart/form-data: " + std::string(why),
      "form"};
}

Error too_long(std::string_view where) {
  return Error{
      Code::kExhausted,
      "Your POST request fields " + std::string(where) + " the upload file were too large.",
      "form-fields"};
}

// "form-data; name="a"" as its type and its parameters, by names in lower case.
struct Parameters {
  std::string type;
  std::map<std::string, std::string> values = {};
};

// Cuts a token or a quoted text off the front. Inside quotes only \" is an escape: browsers send
// file names with the backslashes of their folders.
std::optional<std::string> take_value(std::string_view& text) {
  std::string value;
  if (!text.starts_with('"')) {
    const std::size_t end = std::min(text.find(';'), text.size());
    value = trim(text.substr(0, end));
    text.remove_prefix(end);
    return value.find('"') == std::string::npos ? std::optional(value) : std::nullopt;
  }
  text.remove_prefix(1);
  while (!text.empty() && text.front() != '"') {
    text.remove_prefix(text.starts_with("\\\"") ? 1 : 0);
    value += text.front();
    text.remove_prefix(1);
  }
  if (text.empty()) {
    return std::nullopt;
  }
  text.remove_prefix(1);
  return value;
}

std::optional<Parameters> parse_parameters(std::string_view text) {
  const std::size_t semicolon = std::min(text.find(';'), text.size());
  Parameters found{.type = lower(trim(text.substr(0, semicolon)))};
  text.remove_prefix(semicolon);
  while (!text.empty()) {
    text.remove_prefix(1);  // the semicolon
    const std::size_t equals = text.find('=');
    if (trim(text).empty()) {
      return found;
    }
    if (equals == std::string_view::npos) {
      return std::nullopt;
    }
    const std::string name = lower(trim(text.substr(0, equals)));
    text.remove_prefix(equals + 1);
    auto value = take_value(text);
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    const bool goes_on = text.empty() || text.starts_with(';');
    if (!value || !goes_on || !found.values.emplace(name, *std::move(value)).second) {
      return std::nullopt;
    }
  }
  return found;
}

bool is_boundary(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("'()+_,-./:=? ").find(c) != std::string_view::npos;
  };
  return !text.empty() && text.size() <= kLongestBoundary && !text.ends_with(' ') &&
         std::ranges::all_of(text, fits);
}

std::string_view without_folders(std::string_view name) {
  const std::size_t slash = name.find_last_of("/\\");
  return slash == std::string_view::npos ? name : name.substr(slash + 1);
}

}  // namespace

bool is_form_data(std::string_view content_type) {
  return lower(trim(content_type.substr(0, content_type.find(';')))) == "multipart/form-data";
}

Result<FormReader> FormReader::open(std::string_view content_type, FormSource wire) {
  const auto parsed = parse_parameters(content_type);
  if (!parsed || parsed->type != "multipart/form-data") {
    return bad_form("its Content-Type cannot be read");
  }
  const auto boundary = parsed->values.find("boundary");
  if (boundary == parsed->values.end() || !is_boundary(boundary->second)) {
    return bad_form("its Content-Type has no boundary of 1 to 70 characters");
  }
  return FormReader(boundary->second, std::move(wire));
}

// The first delimiter has no line before it: as if one had ended there.
FormReader::FormReader(std::string_view boundary, FormSource wire)
    : delimiter_("\r\n--" + std::string(boundary)),
      wire_(std::move(wire)),
      buffer_(std::make_unique_for_overwrite<std::byte[]>(kBuffer)),
      end_(kLineEnd.size()) {
  std::memcpy(buffer_.get(), kLineEnd.data(), kLineEnd.size());
}

std::string_view FormReader::held() const {
  return {reinterpret_cast<const char*>(buffer_.get()) + begin_, end_ - begin_};
}

// False at the end of the body.
Result<bool> FormReader::fill() {
  std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
  end_ -= std::exchange(begin_, 0);
  YARD_TRY(const std::size_t got, wire_(std::span(buffer_.get() + end_, buffer_.get() + kBuffer)));
  if (is_late_ && is_late_()) {
    return Error{Code::kDeadline, "The fields of your POST request took too long to arrive."};
  }
  end_ += got;
  return got > 0;
}

Result<void> FormReader::require(std::size_t bytes) {
  while (held().size() < bytes) {
    YARD_TRY(const bool more, fill());
    if (!more) {
      return bad_form("it ends too early");
    }
  }
  return {};
}

// All fields fit into the buffer, so the text stands in it as a whole.
Result<std::string> FormReader::take_until(std::string_view mark) {
  std::size_t searched = 0;
  while (true) {
    const std::size_t at = held().find(mark, searched);
    // Where it is, or could begin at the earliest.
    searched = std::min(at, held().size() - std::min(held().size(), mark.size() - 1));
    if (before_file_ + searched > kMostBeforeFile) {
      return too_long("preceding");
    }
    if (at != std::string_view::npos) {
      std::string text(held().substr(0, at));
      begin_ += at + mark.size();
      before_file_ += at + mark.size();
      return text;
    }
    YARD_TRY(require(held().size() + 1));
  }
}

// What stands behind a delimiter: its line ends, or it was the last.
Result<bool> FormReader::is_last_delimiter() {
  YARD_TRY(require(2));
  const std::string_view behind = held().substr(0, 2);
  if (behind != kLineEnd && behind != "--") {
    return bad_form("a boundary is followed by other text");
  }
  begin_ += 2;
  before_file_ += 2;
  return behind == "--";
}

Result<FormReader::Head> FormReader::read_head() {
  YARD_TRY(const std::string text, take_until(kHeadEnd));
  std::optional<Parameters> disposition;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = std::min(rest.find(kLineEnd), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + kLineEnd.size(), rest.size()));
    const std::size_t colon = line.find(':');
    const bool is_header = colon != std::string_view::npos && colon > 0 &&
                           line.find_first_of(std::string_view("\r\n\0", 3)) == line.npos &&
                           line.substr(0, colon).find_first_of(" \t\"") == line.npos;
    if (!is_header) {
      return bad_form("a part has a header that is none");
    }
    if (!equal_ignoring_case(line.substr(0, colon), "Content-Disposition")) {
      continue;
    }
    if (disposition) {
      return bad_form("a part has two names");
    }
    disposition = parse_parameters(line.substr(colon + 1));
    if (!disposition || disposition->type != "form-data") {
      return bad_form("a part has a Content-Disposition that cannot be read");
    }
  }
  const auto value = [&](const char* name) {
    const auto it = disposition->values.find(name);
    return it == disposition->values.end() ? std::string_view() : std::string_view(it->second);
  };
  if (!disposition || value("name").empty()) {
    return bad_form("a part has no name");
  }
  return Head{.name = lower(value("name")),
              .file_name = std::string(without_folders(value("filename")))};
}

Result<Form> FormReader::read_fields(const Clock& clock) {
  is_late_ = [&clock, end = clock.steady_now() + kMostTime] { return clock.steady_now() > end; };
  auto form = read_all_fields();
  is_late_ = {};  // a file takes as long as it takes
  return form;
}

Result<Form> FormReader::read_all_fields() {
  Form form;
  YARD_TRY(const std::string preamble, take_until(delimiter_));
  if (!preamble.empty()) {
    return bad_form("it does not begin with its boundary");
  }
  while (true) {
    YARD_TRY(const bool last, is_last_delimiter());
    if (last) {
      YARD_TRY(skip_rest());
      return form;
    }
    YARD_TRY(Head head, read_head());
    if (head.name == "file") {
      form.has_file = true;
      form.file_name = std::move(head.file_name);
      return form;
    }
    YARD_TRY(std::string value, take_until(delimiter_));
    if (!form.fields.emplace(head.name, std::move(value)).second) {
      return bad_form("the field '" + head.name + "' comes twice");
    }
  }
}

Result<std::size_t> FormReader::read_file(std::span<std::byte> out) {
  while (!is_done_) {
    const std::size_t at = held().find(delimiter_);
    const std::size_t safe =
        std::min(at, held().size() - std::min(held().size(), delimiter_.size() - 1));
    const std::size_t count = std::min(safe, out.size());
    if (count > 0) {
      std::memcpy(out.data(), buffer_.get() + begin_, count);
      begin_ += count;
      return count;
    }
    if (at == 0) {
      begin_ += delimiter_.size();
      YARD_TRY(const bool last, is_last_delimiter());
      static_cast<void>(last);
      YARD_TRY(skip_rest());
    } else {
      YARD_TRY(require(held().size() + 1));
    }
  }
  return std::size_t{0};
}

Result<void> FormReader::skip_rest() {
  std::size_t behind = 0;
  while (true) {
    behind += held().size();
    begin_ = end_;
    if (behind > kMostBehindFile) {
      return too_long("following");
    }
    YARD_TRY(const bool more, fill());
    if (!more) {
      is_done_ = true;
      return {};
    }
  }
}

}  // namespace trainyard::store
