// SPDX-License-Identifier: Apache-2.0
// The operations of the S3 face, one function each: read what the request asks, ask the store,
// answer. An error that is returned before the answer began becomes an XML error; after that the
// connection is cut.
#pragma once

#include <string>

#include "base/result.h"
#include "store/call.h"

namespace trainyard::store {

using Handler = Result<void> (*)(Call& call);

// buckets.cc
Result<void> list_buckets(Call& call);
Result<void> create_bucket(Call& call);
Result<void> head_bucket(Call& call);
Result<void> delete_bucket(Call& call);
Result<void> get_bucket_location(Call& call);

// fixed_answers.cc
Result<void> get_absent_configuration(Call& call);
Result<void> get_empty_configuration(Call& call);
Result<void> delete_absent_configuration(Call& call);
Result<void> get_acl(Call& call);
Result<void> put_acl(Call& call);

// tagging.cc
Result<void> get_object_tagging(Call& call);
Result<void> put_object_tagging(Call& call);
Result<void> delete_object_tagging(Call& call);
Result<void> get_bucket_tagging(Call& call);
Result<void> put_bucket_tagging(Call& call);
Result<void> delete_bucket_tagging(Call& call);

// cors.cc
Result<void> get_bucket_cors(Call& call);
Result<void> put_bucket_cors(Call& call);
Result<void> delete_bucket_cors(Call& call);
// The answer to OPTIONS, which nobody signs.
http::Response preflight(s3::ObjectStore& store, const http::Request& request, const Target& target,
                         std::string_view request_id);
// What the bucket's configuration adds to the answer to a request with an Origin.
http::Headers cors_headers(s3::ObjectStore& store, const http::Request& request,
                           const std::string& bucket);

// listing.cc
Result<void> list_objects_v1(Call& call);
Result<void> list_objects_v2(Call& call);

// versions.cc
Result<void> list_object_versions(Call& call);

// uploads.cc
Result<void> list_uploads(Call& call);
Result<void> list_parts(Call& call);

// objects.cc
Result<void> put_object(Call& call);
Result<void> get_object(Call& call);  // and HEAD
Result<void> delete_object(Call& call);
Result<void> delete_objects(Call& call);

// attributes.cc
Result<void> get_object_attributes(Call& call);

// copy.cc
Result<void> copy_object(Call& call);
Result<void> upload_part_copy(Call& call);

// multipart.cc
Result<void> create_upload(Call& call);
Result<void> upload_part(Call& call);
Result<void> complete_upload(Call& call);
Result<void> abort_upload(Call& call);

// What a write's headers say of the object: content type, metadata, encryption (accepted, echoed).
// kUnimplemented for those that would be a promise not kept (customer keys, locks, ACLs).
Result<s3::PutOptions> read_write_headers(const http::Headers& headers);
inline Result<s3::PutOptions> read_write_headers(const Call& call) {
  return read_write_headers(call.headers());
}
// If-None-Match: * and If-Match of a write; kUnimplemented for If-None-Match with an ETag.
Result<s3::CompleteOptions> read_write_conditions(const http::Headers& headers);
inline Result<s3::CompleteOptions> read_write_conditions(const Call& call) {
  return read_write_conditions(call.headers());
}
// The encryption that was asked for, as the answer repeats it.
void echo_encryption(const s3::PutOptions& options, http::Headers& headers);
// The checksums, and the type that goes with them.
void describe_checksums(const std::vector<s3::Checksum>& checksums, http::Headers& headers);
void add_checksums(const std::vector<s3::Checksum>& checksums, s3::XmlWriter& xml);
// "COMPOSITE" or "FULL_OBJECT".
std::string_view checksum_type(bool is_composite);
// uploadId and partNumber of the query.
Result<int> part_number(const Call& call);

}  // namespace trainyard::store
