// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "s3/checksum.h"
#include "s3/object_headers.h"
#include "store/body.h"
#include "store/handlers.h"
#include "store/s3_errors.h"

namespace trainyard::store {
namespace {

constexpr std::size_t kDeleteBody = std::size_t{8} << 20;  // 1,000 keys, however they are escaped
constexpr std::size_t kMostDeleted = 1'000;

struct Doomed {
  std::string key;
  std::optional<std::string> etag = {};  // the object is to have it
  std::optional<Error> refused = {};     // why it stays
};

struct Deletion {
  std::vector<Doomed> objects = {};
  bool quiet = false;
};

Doomed read_doomed(const s3::XmlNode& object) {
  Doomed doomed{.key = std::string(object.get("Key"))};
  if (const s3::XmlNode* etag = object.child("ETag")) {
    doomed.etag = s3::unquote_etag(trim(etag->text));
  }
  const std::string_view version = object.get("VersionId");
  if (!version.empty() && version != "null") {
    doomed.refused = Error{Code::kNotFound, "The specified version does not exist", "version"};
  } else if (object.child("LastModifiedTime") != nullptr || object.child("Size") != nullptr) {
    doomed.refused = Error{Code::kUnimplemented,
                           "LastModifiedTime and Size, as conditions, are not implemented: name "
                           "the ETag instead"};
  }
  return doomed;
}

Result<Deletion> read_deletion(const std::string& text) {
  YARD_TRY(const s3::XmlNode root, s3::parse_xml(text));
  Deletion deletion{.quiet = root.get("Quiet") == "true"};
  for (const s3::XmlNode& child : root.children) {
    if (child.name == "Object") {
      deletion.objects.push_back(read_doomed(child));
    }
  }
  if (root.name != "Delete" || deletion.objects.empty() || deletion.objects.size() > kMostDeleted) {
    return Error{Code::kInvalidArgument, "the body is not a Delete of 1 to 1000 objects", "xml"};
  }
  return deletion;
}

// Those without a condition in one step, each other by itself.
void remove_objects(Call& call, std::vector<Doomed>& objects) {
  std::vector<std::string> keys;
  for (const Doomed& object : objects) {
    if (!object.refused && !object.etag) {
      keys.push_back(object.key);
    }
  }
  const auto all = keys.empty() ? Result<void>() : call.store.remove_all(call.target.bucket, keys);
  if (!all && is_logged(all.error())) {
    log_error("s3: deleting objects of " + call.target.bucket + ": " + all.error().message +
              " request=" + call.request_id);
  }
  for (Doomed& object : objects) {
    if (object.refused) {
      continue;
    }
    const auto removed =
        object.etag ? call.store.remove_if(call.target.bucket, object.key, *object.etag) : all;
    if (!removed) {
      object.refused = removed.error();
    }
  }
}

}  // namespace

Result<void> put_object(Call& call) {
  YARD_TRY(s3::PutOptions options, read_write_headers(call));
  YARD_TRY(const auto body, Body::open(call));
  body->promise(options);
  options.before_visible = [&call] { return call.still_holds(); };
  YARD_TRY(const s3::ObjectInfo info,
           call.store.put(call.target.bucket, call.target.key, body->source(), options));
  http::Response response;
  response.headers.set("ETag", s3::quote_etag(info.etag));
  describe_checksums(info.checksums, response.headers);
  echo_encryption(options, response.headers);
  call.respond(std::move(response));
  return {};
}

Result<void> delete_object(Call& call) {
  for (const char* name : {"x-amz-if-match-last-modified-time", "x-amz-if-match-size"}) {
    if (call.headers().find(name) != nullptr) {
      return Error{Code::kUnimplemented,
                   std::string(name) + " is not implemented: use If-Match with the ETag"};
    }
  }
  if (const std::string* condition = call.headers().find("If-Match")) {
    YARD_TRY(call.store.remove_if(call.target.bucket, call.target.key,
                                  s3::unquote_etag(trim(*condition))));
  } else {
    YARD_TRY(call.store.remove(call.target.bucket, call.target.key));
  }
  call.respond({.status = 204, .headers = {}, .body = {}});
  return {};
}

Result<void> delete_objects(Call& call) {
  YARD_TRY(const auto body, Body::open(call));
  YARD_TRY(const std::string text, body->read_text(kDeleteBody));
  YARD_TRY(Deletion deletion, read_deletion(text));
  YARD_TRY(call.store.head_bucket(call.target.bucket));
  remove_objects(call, deletion.objects);
  s3::XmlWriter xml("DeleteResult");
  for (const Doomed& object : deletion.objects) {
    if (const auto& error = object.refused) {
      xml.open("Error").add("Key", object.key).add("Code", s3_error_of(*error).code);
      xml.add("Message", error->message).close();
    } else if (!deletion.quiet) {
      xml.open("Deleted").add("Key", object.key).close();
    }
  }
  call.respond_xml(xml);
  return {};
}

}  // namespace trainyard::store
