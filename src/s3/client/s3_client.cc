// SPDX-License-Identifier: Apache-2.0
#include "s3/client/s3_client.h"

#include "base/encoding.h"
#include "s3/checksum.h"
#include "s3/client/s3_answers.h"
#include "s3/client/s3_client_state.h"
#include "s3/object_headers.h"
#include "s3/xml.h"

namespace trainyard::s3 {
namespace {

constexpr char kTokenMark = '\0';
// How long a store may copy an object, or put its parts together, without a word.
constexpr std::chrono::minutes kWholeObject{10};

std::string copy_source(const std::string& bucket, const std::string& key) {
  return "/" + bucket + "/" + uri_encode(key, true);
}

}  // namespace

S3Client::S3Client(std::unique_ptr<State> state) : state_(std::move(state)) {}
S3Client::~S3Client() = default;

Result<std::unique_ptr<S3Client>> S3Client::make(S3ClientOptions options, http::Client& http,
                                                 Clock& clock, Random& random) {
  YARD_TRY(check_endpoint(options.endpoint));
  return std::unique_ptr<S3Client>(new S3Client(
      std::unique_ptr<State>(new State{.sender = {std::move(options), http, clock, random}})));
}

Result<std::vector<BucketInfo>> S3Client::list_buckets() {
  S3Call call;
  YARD_TRY(const http::Response response, state_->sender.send(call));
  return read_bucket_list(response.body);
}

Result<void> S3Client::create_bucket(const std::string& bucket) {
  const std::string& region = state_->sender.options().region;
  std::string body;
  if (region != "us-east-1") {  // which has no name here
    body = XmlWriter("CreateBucketConfiguration").add("LocationConstraint", region).finish();
  }
  S3Call call{.method = "PUT", .bucket = bucket, .body = body};
  YARD_TRY(const http::Response response, state_->sender.send(call));
  return {};
}

Result<void> S3Client::delete_bucket(const std::string& bucket) {
  S3Call call{.method = "DELETE", .bucket = bucket};
  YARD_TRY(const http::Response response, state_->sender.send(call));
  return {};
}

Result<void> S3Client::head_bucket(const std::string& bucket) {
  S3Call call{.method = "HEAD", .bucket = bucket};
  YARD_TRY(const http::Response response, state_->sender.send(call));
  return {};
}

Result<ObjectInfo> S3Client::put(const std::string& bucket, const std::string& key,
                                 const ByteSource& body, const PutOptions& options) {
  return upload_object(*this, state_->sender, {.bucket = bucket, .key = key}, body, options);
}

Result<std::unique_ptr<ObjectReader>> S3Client::get(const std::string& bucket,
                                                    const std::string& key,
                                                    std::optional<ByteRange> range) {
  return open_download(state_->sender, bucket, key, range);
}

Result<ObjectInfo> S3Client::head(const std::string& bucket, const std::string& key) {
  return head_object(state_->sender, bucket, key);
}

Result<void> S3Client::remove(const std::string& bucket, const std::string& key) {
  S3Call call{.method = "DELETE", .bucket = bucket, .key = key};
  const auto response = state_->sender.send(call);
  if (response || response.error().subject == "key") {
    return {};
  }
  return response.error();
}

Result<ListPage> S3Client::list(const std::string& bucket, const ListQuery& query) {
  S3Call call{
      .bucket = bucket,
      .query = {
          {"list-type", "2"}, {"encoding-type", "url"}, {"max-keys", std::to_string(query.limit)}}};
  const auto add = [&call](const char* name, const std::string& value) {
    if (!value.empty()) {
      call.query.emplace_back(name, value);
    }
  };
  add("prefix", query.prefix);
  add("delimiter", query.delimiter);
  // What a truncated page gave as next_after is S3's own token, told apart by its first byte.
  if (query.after.starts_with(kTokenMark)) {
    add("continuation-token", query.after.substr(1));
  } else {
    add("start-after", query.after);
  }
  YARD_TRY(const http::Response response, state_->sender.send(call));
  YARD_TRY(ListPage page, read_object_list(response.body));
  if (page.truncated) {
    page.next_after.insert(page.next_after.begin(), kTokenMark);
  }
  return page;
}

Result<ObjectInfo> S3Client::copy(const std::string& from_bucket, const std::string& from_key,
                                  const std::string& bucket, const std::string& key,
                                  const std::optional<PutOptions>& replace) {
  S3Call call{.method = "PUT", .bucket = bucket, .key = key, .patience = kWholeObject};
  call.headers.set("x-amz-copy-source", copy_source(from_bucket, from_key));
  if (replace) {
    call.headers.set("x-amz-metadata-directive", "REPLACE");
    write_object_headers(replace->content_type, replace->headers, call.headers);
    if (replace->only_if_absent) {
      call.headers.set("If-None-Match", "*");
    }
    if (replace->source_etag) {
      call.headers.set("x-amz-copy-source-if-match", quote_etag(*replace->source_etag));
    }
  }
  YARD_TRY(const http::Response response, state_->sender.send(call));
  YARD_TRY(const Made made, read_made(response.body));
  YARD_TRY(ObjectInfo info, head(bucket, key));
  if (info.etag != made.etag) {
    return Error{Code::kConflict, "'" + key + "' was replaced while it was copied", "key"};
  }
  return info;
}

Result<std::string> S3Client::create_upload(const std::string& bucket, const std::string& key,
                                            const PutOptions& options) {
  S3Call call{.method = "POST", .bucket = bucket, .key = key, .query = {{"uploads", ""}}};
  write_object_headers(options.content_type, options.headers, call.headers);
  if (const auto kind = chosen_checksum(options, false)) {
    call.headers.set("x-amz-checksum-algorithm", std::string(checksum_name(*kind)));
    call.headers.set("x-amz-checksum-type",
                     options.full_object_checksum ? "FULL_OBJECT" : "COMPOSITE");
  }
  YARD_TRY(const http::Response response, state_->sender.send(call));
  return read_upload_id(response.body);
}

Result<PartInfo> S3Client::put_part(const std::string& bucket, const std::string& key,
                                    const PartId& part, const ByteSource& body,
                                    const PutOptions& options) {
  std::string bytes;
  YARD_TRY(fill(body, bytes.max_size(), bytes));
  Digester digester(options);
  digester.update(std::as_bytes(std::span(bytes)));
  YARD_TRY(auto digests, digester.finish());
  const auto kind = chosen_checksum(options, false);
  std::erase_if(digests.checksums, [&](const Checksum& other) { return other.kind != kind; });
  return send_part(state_->sender, {.bucket = bucket, .key = key},
                   {.id = part, .bytes = bytes, .checksums = std::move(digests.checksums)});
}

Result<ObjectInfo> S3Client::complete_upload(const std::string& bucket, const std::string& key,
                                             const std::string& upload_id,
                                             const std::vector<PartInfo>& parts) {
  const std::string body = write_part_list(parts);
  S3Call call{.method = "POST",
              .bucket = bucket,
              .key = key,
              .query = {{"uploadId", upload_id}},
              .body = body,
              .patience = kWholeObject};
  auto response = state_->sender.send(call);
  if (!response && response.error().subject != "upload") {
    return std::move(response).error();
  }
  std::string etag = multipart_etag(parts);
  if (response) {
    YARD_TRY(Made made, read_made(response->body));
    etag = std::move(made.etag);
  }
  // An unknown upload may be one that an attempt whose answer was lost has completed.
  auto info = head(bucket, key);
  if (!response && (!info || info->etag != etag)) {
    return std::move(response).error();
  }
  return info;
}

Result<void> S3Client::abort_upload(const std::string& bucket, const std::string& key,
                                    const std::string& upload_id) {
  S3Call call{.method = "DELETE", .bucket = bucket, .key = key, .query = {{"uploadId", upload_id}}};
  YARD_TRY(const http::Response response, state_->sender.send(call));
  return {};
}

Result<std::vector<PartInfo>> S3Client::list_parts(const std::string& bucket,
                                                   const std::string& key,
                                                   const std::string& upload_id) {
  std::vector<PartInfo> parts;
  std::string marker;
  do {
    S3Call call{.bucket = bucket, .key = key, .query = {{"uploadId", upload_id}}};
    if (!marker.empty()) {
      call.query.emplace_back("part-number-marker", marker);
    }
    YARD_TRY(const http::Response response, state_->sender.send(call));
    YARD_TRY(PartPage page, read_part_list(response.body));
    std::move(page.parts.begin(), page.parts.end(), std::back_inserter(parts));
    marker = std::move(page.next);
  } while (!marker.empty());
  return parts;
}

Result<std::vector<UploadInfo>> S3Client::list_uploads(const std::string& bucket,
                                                       const std::string& prefix) {
  std::vector<UploadInfo> uploads;
  UploadPage page;
  do {
    S3Call call{.bucket = bucket,
                .query = {{"uploads", ""}, {"encoding-type", "url"}, {"prefix", prefix}}};
    if (!page.next_key.empty()) {
      call.query.emplace_back("key-marker", page.next_key);
      call.query.emplace_back("upload-id-marker", page.next_id);
    }
    YARD_TRY(const http::Response response, state_->sender.send(call));
    YARD_TRY(page, read_upload_list(response.body));
    std::move(page.uploads.begin(), page.uploads.end(), std::back_inserter(uploads));
  } while (!page.next_key.empty());
  return uploads;
}

}  // namespace trainyard::s3
