// SPDX-License-Identifier: Apache-2.0
// Tags of objects, which go with the object, and of buckets, which are a setting of theirs.
#include "store/body.h"
#include "store/handlers.h"
#include "store/tags.h"

namespace trainyard::store {
namespace {

constexpr std::size_t kTaggingBody = std::size_t{64} << 10;
constexpr const char* kSetting = "tagging";

void respond_tags(Call& call, const std::string& document) {
  http::Response response{.body = document};
  response.headers.set("Content-Type", "application/xml");
  call.respond(std::move(response));
}

Result<Tags> read_tags(Call& call, std::size_t most) {
  YARD_TRY(const auto body, Body::open(call));
  YARD_TRY(const std::string text, body->read_text(kTaggingBody));
  return parse_tag_document(text, most);
}

}  // namespace

Result<void> get_object_tagging(Call& call) {
  YARD_TRY(const s3::ObjectInfo info, call.store.head(call.target.bucket, call.target.key));
  respond_tags(call, tag_document(info.tags));
  return {};
}

Result<void> put_object_tagging(Call& call) {
  YARD_TRY(const Tags tags, read_tags(call, kMostObjectTags));
  YARD_TRY(call.store.set_tags(call.target.bucket, call.target.key, tags));
  call.respond({});
  return {};
}

Result<void> delete_object_tagging(Call& call) {
  YARD_TRY(call.store.set_tags(call.target.bucket, call.target.key, {}));
  call.respond({.status = 204});
  return {};
}

Result<void> get_bucket_tagging(Call& call) {
  YARD_TRY(const std::string document, call.store.bucket_setting(call.target.bucket, kSetting));
  if (document.empty()) {
    return Error{Code::kNotFound, "The TagSet does not exist", "tag-set"};
  }
  respond_tags(call, document);
  return {};
}

Result<void> put_bucket_tagging(Call& call) {
  YARD_TRY(const Tags tags, read_tags(call, kMostBucketTags));
  YARD_TRY(call.store.set_bucket_setting(call.target.bucket, kSetting,
                                         tags.empty() ? "" : tag_document(tags)));
  call.respond({.status = 204});
  return {};
}

Result<void> delete_bucket_tagging(Call& call) {
  YARD_TRY(call.store.set_bucket_setting(call.target.bucket, kSetting, ""));
  call.respond({.status = 204});
  return {};
}

}  // namespace trainyard::store
