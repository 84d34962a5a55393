// SPDX-License-Identifier: Apache-2.0
#include "server/store/key_file.h"

#include <fmt/format.h>

#include "base/text.h"

namespace trainyard::server {
namespace {

constexpr std::size_t kShortestSecret = 16;
constexpr std::size_t kIdBytes = 8;
constexpr std::size_t kSecretBytes = 20;

Error bad_line(std::size_t number, std::string_view why) {
  return Error{Code::kInvalidArgument, fmt::format("line {} of the keys {}", number, why)};
}

Result<AccessKeys> make_keys(const Path& file, Random& random) {
  const std::string id = "AKIA" + upper(random.hex(kIdBytes));
  const std::string secret = random.hex(kSecretBytes);
  YARD_TRY(make_directories(file.parent_path(), 0700));
  YARD_TRY(write_file_durably(file,
                              fmt::format("[default]\naws_access_key_id = {}\n"
                                          "aws_secret_access_key = {}\n",
                                          id, secret),
                              0600));
  return AccessKeys{{id, secret}};
}

}  // namespace

Result<AccessKeys> parse_keys(std::string_view text) {
  AccessKeys keys;
  std::string id;
  std::size_t number = 0;
  for (const std::string_view raw : split(text, '\n')) {
    ++number;
    const std::string_view line = trim(raw);
    if (line.empty() || line.starts_with('#') || line.starts_with(';')) {
      continue;
    }
    if (line.starts_with('[') && line.ends_with(']')) {
      id.clear();
      continue;
    }
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) {
      return bad_line(number, "is neither [profile] nor name = value");
    }
    const std::string name = lower(trim(line.substr(0, equals)));
    const std::string_view value = trim(line.substr(equals + 1));
    if (name == "aws_access_key_id") {
      id = value;
    } else if (name == "aws_secret_access_key") {
      if (id.empty()) {
        return bad_line(number, "gives a secret before its aws_access_key_id");
      }
      if (value.size() < kShortestSecret) {
        return bad_line(number, "gives a secret of fewer than 16 characters");
      }
      keys[id] = value;
    }
  }
  if (keys.empty()) {
    return Error{Code::kInvalidArgument,
                 "the keys hold no pair of aws_access_key_id and aws_secret_access_key"};
  }
  return keys;
}

Result<AccessKeys> load_or_make_keys(const Path& file, Random& random) {
  const auto text = read_file(file, std::size_t{1} << 20);
  if (!text) {
    return text.error().code == Code::kNotFound ? make_keys(file, random)
                                                : Result<AccessKeys>(text.error());
  }
  auto keys = parse_keys(*text);
  return keys ? std::move(keys)
              : Result<AccessKeys>(keys.error().in("reading the keys in " + file.string()));
}

}  // namespace trainyard::server
