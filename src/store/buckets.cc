// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "base/encoding.h"
#include "formats/xml_text.h"
#include "store/body.h"
#include "store/handlers.h"

namespace trainyard::store {
namespace {

constexpr std::size_t kMostBuckets = 10'000;
constexpr std::size_t kConfigurationLimit = std::size_t{64} << 10;
constexpr std::string_view kNamelessRegion = "us-east-1";  // its location is an empty text

}  // namespace

Result<void> list_buckets(Call& call) {
  YARD_TRY(auto buckets, call.store.list_buckets());
  YARD_TRY(const std::size_t limit, call.target.count("max-buckets", kMostBuckets, kMostBuckets));
  const auto after = from_hex(call.target.get("continuation-token"));
  if (!after || limit == 0) {
    return Error{Code::kInvalidArgument, "continuation-token or max-buckets is incorrect",
                 "argument"};
  }
  const std::string_view prefix = call.target.get("prefix");
  std::erase_if(buckets, [&](const s3::BucketInfo& bucket) {
    return bucket.name <= *after || !bucket.name.starts_with(prefix);
  });
  const bool truncated = buckets.size() > limit;
  buckets.resize(std::min(buckets.size(), limit));
  s3::XmlWriter xml("ListAllMyBucketsResult");
  xml.open("Owner").add("ID", call.options.account_id).close().open("Buckets");
  for (const s3::BucketInfo& bucket : buckets) {
    xml.open("Bucket").add("Name", bucket.name).add("CreationDate", xml_time(bucket.created));
    xml.close();
  }
  xml.close();
  if (truncated) {
    xml.add("ContinuationToken", to_hex(buckets.back().name));
  }
  call.respond_xml(xml);
  return {};
}

Result<void> create_bucket(Call& call) {
  const std::string_view acl = call.headers().get("x-amz-acl", "private");
  if (acl != "private" || call.headers().get("x-amz-bucket-object-lock-enabled") == "true") {
    return Error{Code::kUnimplemented,
                 "A header you provided implies functionality that is not "
                 "implemented: x-amz-acl or x-amz-bucket-object-lock-enabled"};
  }
  YARD_TRY(const auto body, Body::open(call));
  YARD_TRY(const std::string text, body->read_text(kConfigurationLimit));
  if (!text.empty()) {
    // Any LocationConstraint is accepted: there is one location here.
    YARD_TRY(const s3::XmlNode root, s3::parse_xml(text));
    if (root.name != "CreateBucketConfiguration") {
      return Error{Code::kInvalidArgument, "the body is not a CreateBucketConfiguration", "xml"};
    }
  }
  const auto created = call.store.create_bucket(call.target.bucket);
  // In us-east-1 S3 answers its owner as if the bucket were new, and clients rely on it.
  const bool is_again = !created && created.error().code == Code::kAlreadyExists &&
                        call.options.region == kNamelessRegion;
  if (!created && !is_again) {
    return created.error();
  }
  http::Response response;
  response.headers.set("Location", "/" + call.target.bucket);
  call.respond(std::move(response));
  return {};
}

Result<void> head_bucket(Call& call) {
  YARD_TRY(call.store.head_bucket(call.target.bucket));
  http::Response response;
  response.headers.set("x-amz-bucket-region", call.options.region);
  response.headers.set("Content-Type", "application/xml");
  call.respond(std::move(response));
  return {};
}

Result<void> delete_bucket(Call& call) {
  YARD_TRY(call.store.delete_bucket(call.target.bucket));
  call.respond({.status = 204, .headers = {}, .body = {}});
  return {};
}

Result<void> get_bucket_location(Call& call) {
  YARD_TRY(call.store.head_bucket(call.target.bucket));
  // The root element is the answer itself.
  const std::string& region = call.options.region;
  http::Response response;
  response.headers.set("Content-Type", "application/xml");
  response.body =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<LocationConstraint xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">" +
      (region == kNamelessRegion ? "" : xml_text(region)) + "</LocationConstraint>";
  call.respond(std::move(response));
  return {};
}

}  // namespace trainyard::store
