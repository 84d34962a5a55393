// SPDX-License-Identifier: Apache-2.0
#include "instance/transfer/checkpoint_place.h"

#include "base/encoding.h"
#include "instance/launch/request.h"

namespace trainyard::instance {

using nlohmann::json;

namespace {

constexpr std::string_view kDefaultPath = "/opt/ml/checkpoints/";
constexpr std::size_t kLongestKey = 1'024;

}  // namespace

Result<std::optional<CheckpointPlace>> checkpoint_place(const json& request, const Path& scratch) {
  const json& config = member(request, "CheckpointConfig");
  if (!config.is_object()) {
    return std::optional<CheckpointPlace>();
  }
  YARD_TRY(const s3::Uri uri, s3::parse_uri(text_at(config, "S3Uri")));
  CheckpointPlace place{
      .bucket = uri.bucket,
      .prefix = uri.key,
      .inside = Path(text_at(config, "LocalPath", kDefaultPath)).lexically_normal().string(),
      .directory = scratch / "checkpoints"};
  if (!place.prefix.empty() && !place.prefix.ends_with('/')) {
    place.prefix += '/';
  }
  while (place.inside.size() > 1 && place.inside.ends_with('/')) {
    place.inside.pop_back();
  }
  return std::optional(std::move(place));
}

json checkpoint_config(const json& request) {
  const json& config = member(request, "CheckpointConfig");
  if (!config.is_object()) {
    return nullptr;
  }
  return {{"S3Uri", text_at(config, "S3Uri")},
          {"LocalPath", text_at(config, "LocalPath", kDefaultPath)}};
}

std::string why_no_key(const CheckpointPlace& place, std::string_view path) {
  if (!is_utf8(path)) {
    return "its name is not UTF-8";
  }
  if (const std::size_t length = place.prefix.size() + path.size(); length > kLongestKey) {
    return "its key would have " + std::to_string(length) + " bytes, and S3 allows " +
           std::to_string(kLongestKey);
  }
  return {};
}

}  // namespace trainyard::instance
