// SPDX-License-Identifier: Apache-2.0
#include "control/decide/source_check.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/encoding.h"
#include "base/text.h"
#include "formats/archive.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

// A source archive is code: one of this size is a mistake or a bomb.
constexpr ArchiveLimits kLimits{.bytes = std::uint64_t{4} << 30, .members = 100'000};

// JSON text when it parses, the raw text when not: both are in use.
std::string decoded(const json& parameters, const char* name) {
  const auto found = parameters.find(name);
  if (found == parameters.end() || !found->is_string()) {
    return {};
  }
  const std::string raw = found->get<std::string>();
  const json value = json::parse(raw, nullptr, /*allow_exceptions=*/false);
  return value.is_string() ? value.get<std::string>() : raw;
}

std::string_view normal(std::string_view path) {
  while (path.starts_with("./")) {
    path.remove_prefix(2);
  }
  return path;
}

std::string content_of(const std::vector<ArchiveMember>& members) {
  constexpr std::size_t kShown = 10;
  std::vector<std::string> names;
  for (const ArchiveMember& member : members) {
    if (member.kind != ArchiveMember::Kind::kDirectory && names.size() < kShown) {
      names.push_back(to_valid_utf8(member.name));  // an archive takes any bytes
    }
  }
  if (names.empty()) {
    return "it holds no files";
  }
  const bool more = members.size() > names.size();
  return fmt::format("it holds {}{}", join(names, ", "), more ? ", ..." : "");
}

bool holds(const std::vector<ArchiveMember>& members, std::string_view entry_point) {
  return std::any_of(members.begin(), members.end(), [&](const ArchiveMember& member) {
    return member.kind != ArchiveMember::Kind::kOther && normal(member.name) == normal(entry_point);
  });
}

}  // namespace

std::optional<Source> source_of(const Job& job) {
  const json parameters = hyperparameters(job);
  Source source{.archive = decoded(parameters, "sagemaker_submit_directory"),
                .entry_point = decoded(parameters, "sagemaker_program")};
  if (!source.archive.starts_with("s3://")) {
    return std::nullopt;
  }
  return source;
}

Result<void> check_source(s3::ObjectStore& objects, const Source& source) {
  YARD_TRY(const s3::Uri uri, s3::parse_uri(source.archive));
  auto reader = objects.get(uri.bucket, uri.key, std::nullopt);
  if (!reader) {
    Error error = reader.error();
    if (error.code == Code::kNotFound) {
      error.message = fmt::format(
          "the source archive {} (sagemaker_submit_directory) does not "
          "exist",
          source.archive);
    }
    return error;
  }
  const auto members =
      list_archive([&](std::span<std::byte> out) { return (*reader)->read(out); }, kLimits);
  if (!members) {
    Error error = members.error();
    if (error.code == Code::kCorrupt) {
      error.code = Code::kInvalidArgument;
    }
    error.message =
        fmt::format("the source archive {} cannot be read: {}", source.archive, error.message);
    return error;
  }
  if (source.entry_point.empty() || holds(*members, source.entry_point)) {
    return {};
  }
  return Error{.code = Code::kInvalidArgument,
               .message = fmt::format("the entry point {} (sagemaker_program) is not in {}; {}",
                                      source.entry_point, source.archive, content_of(*members))};
}

}  // namespace trainyard::control
