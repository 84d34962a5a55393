// SPDX-License-Identifier: Apache-2.0
#include "store/routes.h"

#include <algorithm>
#include <array>

namespace trainyard::store {
namespace {

enum class Level { kService, kBucket, kObject };

struct Route {
  std::string_view method;
  Level level;
  std::string_view marker;  // query parameter that chooses this operation; empty: none of them
  Handler handler;
  std::string_view header = {};  // as the marker, a header
};

// The first that fits is taken, so those with more marks come first.
constexpr Route kRoutes[] = {
    {"GET", Level::kService, "", list_buckets},

    {"GET", Level::kBucket, "accelerate", get_empty_configuration},
    {"GET", Level::kBucket, "acl", get_acl},
    {"GET", Level::kBucket, "cors", get_bucket_cors},
    {"GET", Level::kBucket, "encryption", get_absent_configuration},
    {"GET", Level::kBucket, "lifecycle", get_absent_configuration},
    {"GET", Level::kBucket, "location", get_bucket_location},
    {"GET", Level::kBucket, "logging", get_empty_configuration},
    {"GET", Level::kBucket, "notification", get_empty_configuration},
    {"GET", Level::kBucket, "object-lock", get_absent_configuration},
    {"GET", Level::kBucket, "ownershipControls", get_absent_configuration},
    {"GET", Level::kBucket, "policy", get_absent_configuration},
    {"GET", Level::kBucket, "policyStatus", get_absent_configuration},
    {"GET", Level::kBucket, "publicAccessBlock", get_absent_configuration},
    {"GET", Level::kBucket, "replication", get_absent_configuration},
    {"GET", Level::kBucket, "requestPayment", get_empty_configuration},
    {"GET", Level::kBucket, "tagging", get_bucket_tagging},
    {"GET", Level::kBucket, "uploads", list_uploads},
    {"GET", Level::kBucket, "versioning", get_empty_configuration},
    {"GET", Level::kBucket, "versions", list_object_versions},
    {"GET", Level::kBucket, "website", get_absent_configuration},
    {"GET", Level::kBucket, "list-type", list_objects_v2},
    {"GET", Level::kBucket, "", list_objects_v1},
    {"HEAD", Level::kBucket, "", head_bucket},
    {"PUT", Level::kBucket, "acl", put_acl},
    {"PUT", Level::kBucket, "cors", put_bucket_cors},
    {"PUT", Level::kBucket, "tagging", put_bucket_tagging},
    {"PUT", Level::kBucket, "", create_bucket},
    {"DELETE", Level::kBucket, "cors", delete_bucket_cors},
    {"DELETE", Level::kBucket, "encryption", delete_absent_configuration},
    {"DELETE", Level::kBucket, "lifecycle", delete_absent_configuration},
    {"DELETE", Level::kBucket, "ownershipControls", delete_absent_configuration},
    {"DELETE", Level::kBucket, "policy", delete_absent_configuration},
    {"DELETE", Level::kBucket, "publicAccessBlock", delete_absent_configuration},
    {"DELETE", Level::kBucket, "replication", delete_absent_configuration},
    {"DELETE", Level::kBucket, "tagging", delete_bucket_tagging},
    {"DELETE", Level::kBucket, "website", delete_absent_configuration},
    {"DELETE", Level::kBucket, "", delete_bucket},
    {"POST", Level::kBucket, "delete", delete_objects},

    {"GET", Level::kObject, "acl", get_acl},
    {"GET", Level::kObject, "attributes", get_object_attributes},
    {"GET", Level::kObject, "legal-hold", get_absent_configuration},
    {"GET", Level::kObject, "retention", get_absent_configuration},
    {"GET", Level::kObject, "tagging", get_object_tagging},
    {"GET", Level::kObject, "uploadId", list_parts},
    {"GET", Level::kObject, "", get_object},
    {"HEAD", Level::kObject, "", get_object},
    {"PUT", Level::kObject, "acl", put_acl},
    {"PUT", Level::kObject, "tagging", put_object_tagging},
    {"PUT", Level::kObject, "uploadId", upload_part_copy, "x-amz-copy-source"},
    {"PUT", Level::kObject, "uploadId", upload_part},
    {"PUT", Level::kObject, "", copy_object, "x-amz-copy-source"},
    {"PUT", Level::kObject, "", put_object},
    {"POST", Level::kObject, "uploads", create_upload},
    {"POST", Level::kObject, "uploadId", complete_upload},
    {"DELETE", Level::kObject, "tagging", delete_object_tagging},
    {"DELETE", Level::kObject, "uploadId", abort_upload},
    {"DELETE", Level::kObject, "", delete_object},
};

// What makes a request another operation. Those without a route are not served at all.
constexpr std::string_view kSubresources[] = {"accelerate",
                                              "acl",
                                              "analytics",
                                              "append",
                                              "attributes",
                                              "cors",
                                              "delete",
                                              "encryption",
                                              "intelligent-tiering",
                                              "inventory",
                                              "legal-hold",
                                              "lifecycle",
                                              "location",
                                              "logging",
                                              "metadataConfiguration",
                                              "metadataTable",
                                              "metrics",
                                              "notification",
                                              "object-lock",
                                              "ownershipControls",
                                              "policy",
                                              "policyStatus",
                                              "publicAccessBlock",
                                              "renameObject",
                                              "replication",
                                              "requestPayment",
                                              "restore",
                                              "retention",
                                              "select",
                                              "session",
                                              "tagging",
                                              "torrent",
                                              "uploadId",
                                              "uploads",
                                              "versioning",
                                              "versions",
                                              "website"};

// What an operation may be told, beside x-... and response-... .
constexpr std::string_view kParameters[] = {
    "AWSAccessKeyId",     "Expires",   "Signature",     "bucket-region",
    "continuation-token", "delimiter", "encoding-type", "fetch-owner",
    "key-marker",         "list-type", "marker",        "max-buckets",
    "max-keys",           "max-parts", "max-uploads",   "part-number-marker",
    "partNumber",         "prefix",    "start-after",   "upload-id-marker",
    "version-id-marker",  "versionId"};

bool is_among(std::string_view name, std::span<const std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

bool is_known_parameter(std::string_view name) {
  return name.starts_with("x-") || name.starts_with("X-") || name.starts_with("response-") ||
         is_among(name, kParameters);
}

Error unserved(std::string_view name) {
  return Error{Code::kUnimplemented,
               "A subresource you named is not implemented: " + std::string(name)};
}

Level level_of(const Target& target) {
  if (target.bucket.empty()) {
    return Level::kService;
  }
  return target.key.empty() ? Level::kBucket : Level::kObject;
}

const Route* find_route(const http::Request& request, const Target& target) {
  const Level level = level_of(target);
  const auto it = std::ranges::find_if(kRoutes, [&](const Route& route) {
    return route.method == request.method && route.level == level &&
           (route.marker.empty() || target.has(route.marker)) &&
           (route.header.empty() || request.headers.find(route.header) != nullptr);
  });
  return it == std::end(kRoutes) ? nullptr : &*it;
}

// Nothing in the query may mean another operation than the one that is about to run.
Result<void> check_query(const Target& target, std::string_view marker) {
  for (const auto& [name, value] : target.query) {
    if (name != marker && is_among(name, kSubresources)) {
      return unserved(name);
    }
    // "?name" asks for a sub-resource that is new to us; "?name=value" is ignored, as S3 does.
    if (name != marker && value.empty() && !is_known_parameter(name)) {
      return unserved(name);
    }
  }
  return {};
}

Result<void> check_object_query(const http::Request& request, const Target& target,
                                std::string_view marker) {
  const bool reads = request.method == "GET" || request.method == "HEAD";
  if (target.has("partNumber") && !reads && marker != "uploadId") {
    return Error{Code::kInvalidArgument, "partNumber goes with uploadId", "argument"};
  }
  if (!target.has("versionId")) {
    return {};
  }
  const bool writes = request.method == "POST" || (request.method == "PUT" && marker.empty());
  if (writes) {
    return Error{Code::kInvalidArgument, "This operation does not accept a versionId", "argument"};
  }
  // There is one version of an object, the one that S3 calls "null".
  return target.get("versionId") == "null"
             ? Result<void>()
             : Error{Code::kNotFound, "The specified version does not exist", "version"};
}

}  // namespace

Result<Operation> choose_operation(const http::Request& request, const Target& target) {
  const Route* const route = find_route(request, target);
  YARD_TRY(check_query(target, route == nullptr ? "" : route->marker));
  if (route == nullptr) {
    return Error{Code::kUnimplemented, "The specified method is not allowed against this resource",
                 "method"};
  }
  if (route->level == Level::kObject) {
    YARD_TRY(check_object_query(request, target, route->marker));
  }
  return Operation{.run = route->handler};
}

}  // namespace trainyard::store
