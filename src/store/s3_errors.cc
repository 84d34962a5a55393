// SPDX-License-Identifier: Apache-2.0
#include "store/s3_errors.h"

namespace trainyard::store {
namespace {

struct Row {
  Code code;
  std::string_view subject;  // empty: any other
  S3Error error;
};

constexpr Row kRows[] = {
    {Code::kNotFound, "bucket", {"NoSuchBucket", 404}},
    {Code::kNotFound, "upload", {"NoSuchUpload", 404}},
    {Code::kNotFound, "version", {"NoSuchVersion", 404}},
    {Code::kNotFound, "cors", {"NoSuchCORSConfiguration", 404}},
    {Code::kNotFound, "encryption", {"ServerSideEncryptionConfigurationNotFoundError", 404}},
    {Code::kNotFound, "lifecycle", {"NoSuchLifecycleConfiguration", 404}},
    {Code::kNotFound, "lock", {"NoSuchObjectLockConfiguration", 404}},
    {Code::kNotFound, "lock-configuration", {"ObjectLockConfigurationNotFoundError", 404}},
    {Code::kNotFound, "ownership", {"OwnershipControlsNotFoundError", 404}},
    {Code::kNotFound, "policy", {"NoSuchBucketPolicy", 404}},
    {Code::kNotFound, "public-access-block", {"NoSuchPublicAccessBlockConfiguration", 404}},
    {Code::kNotFound, "replication", {"ReplicationConfigurationNotFoundError", 404}},
    {Code::kNotFound, "tag-set", {"NoSuchTagSet", 404}},
    {Code::kNotFound, "website", {"NoSuchWebsiteConfiguration", 404}},
    {Code::kNotFound, "", {"NoSuchKey", 404}},
    {Code::kAlreadyExists, "", {"BucketAlreadyOwnedByYou", 409}},
    {Code::kConflict, "bucket", {"BucketNotEmpty", 409}},
    {Code::kConflict, "precondition", {"PreconditionFailed", 412}},
    {Code::kConflict, "", {"OperationAborted", 409}},
    {Code::kInvalidArgument, "bad-request", {"BadRequest", 400}},
    {Code::kInvalidArgument, "chunk", {"IncompleteBody", 400}},
    {Code::kInvalidArgument, "content-md5", {"InvalidDigest", 400}},
    {Code::kInvalidArgument, "digest", {"BadDigest", 400}},
    {Code::kInvalidArgument, "file-size", {"EntityTooLarge", 400}},
    {Code::kInvalidArgument, "form", {"MalformedPOSTRequest", 400}},
    {Code::kInvalidArgument, "key-length", {"KeyTooLongError", 400}},
    {Code::kInvalidArgument, "length", {"IncompleteBody", 400}},
    {Code::kInvalidArgument, "metadata", {"MetadataTooLarge", 400}},
    {Code::kInvalidArgument, "missing-length", {"MissingContentLength", 411}},
    {Code::kInvalidArgument, "name", {"InvalidBucketName", 400}},
    {Code::kInvalidArgument, "part", {"InvalidPart", 400}},
    {Code::kInvalidArgument, "part-range", {"InvalidPartNumber", 416}},
    {Code::kInvalidArgument, "part-order", {"InvalidPartOrder", 400}},
    {Code::kInvalidArgument, "part-size", {"EntityTooSmall", 400}},
    {Code::kInvalidArgument, "payload-hash", {"XAmzContentSHA256Mismatch", 400}},
    {Code::kInvalidArgument, "policy-document", {"InvalidPolicyDocument", 400}},
    {Code::kInvalidArgument, "range", {"InvalidRange", 416}},
    {Code::kInvalidArgument, "request", {"InvalidRequest", 400}},
    {Code::kInvalidArgument, "storage-class", {"InvalidStorageClass", 400}},
    {Code::kInvalidArgument, "tag", {"InvalidTag", 400}},
    {Code::kInvalidArgument, "trailer", {"MalformedTrailerError", 400}},
    {Code::kInvalidArgument, "uri", {"InvalidURI", 400}},
    {Code::kInvalidArgument, "xml", {"MalformedXML", 400}},
    {Code::kInvalidArgument, "", {"InvalidArgument", 400}},
    // Any other denial is the disk's (EACCES, EROFS), which is our fault and not the client's.
    {Code::kDenied, "access", {"AccessDenied", 403}},
    {Code::kDenied, "cors", {"AccessForbidden", 403}},
    {Code::kDenied, "signature", {"SignatureDoesNotMatch", 403}},
    {Code::kExhausted, "body", {"MaxMessageLengthExceeded", 400}},
    {Code::kExhausted, "form-fields", {"MaxPostPreDataLengthExceeded", 400}},
    // S3 itself is never full, so its list has no name for it; 507 is not tried again by clients.
    {Code::kExhausted, "", {"InsufficientStorage", 507}},
    {Code::kUnavailable, "", {"ServiceUnavailable", 503}},
    {Code::kCancelled, "", {"ServiceUnavailable", 503}},
    {Code::kDeadline, "", {"RequestTimeout", 400}},
    {Code::kUnimplemented, "method", {"MethodNotAllowed", 405}},
    {Code::kUnimplemented, "", {"NotImplemented", 501}},
};

constexpr S3Error kInternal{"InternalError", 500};

}  // namespace

S3Error s3_error_of(const Error& error) {
  for (const Row& row : kRows) {
    if (row.code == error.code && (row.subject.empty() || row.subject == error.subject)) {
      return row.error;
    }
  }
  return kInternal;
}

bool is_logged(const Error& error) {
  const int status = s3_error_of(error).status;
  return status >= 500 && status != 501 && error.subject != "peer";
}

S3Error s3_error_of(http::AuthFailure failure) {
  switch (failure) {
    case http::AuthFailure::kMissing:
      return {"AccessDenied", 403};
    case http::AuthFailure::kMalformed:
      return {"AuthorizationHeaderMalformed", 400};
    case http::AuthFailure::kUnknownKey:
      return {"InvalidAccessKeyId", 403};
    case http::AuthFailure::kBadToken:
      return {"InvalidToken", 400};
    case http::AuthFailure::kExpiredToken:
      return {"ExpiredToken", 400};
    case http::AuthFailure::kSkewed:
      return {"RequestTimeTooSkewed", 403};
    case http::AuthFailure::kExpired:
      return {"AccessDenied", 403};
    case http::AuthFailure::kMismatch:
      return {"SignatureDoesNotMatch", 403};
  }
  return kInternal;
}

}  // namespace trainyard::store
