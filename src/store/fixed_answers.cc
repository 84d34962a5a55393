// SPDX-License-Identifier: Apache-2.0
// Configurations of buckets that S3 has and this store does not: clients read them, and delete
// them, as those of a bucket for which nobody ever set one. Setting one is NotImplemented
// (routes.cc), since it would be a promise that nobody keeps.
#include "formats/xml_text.h"
#include "store/handlers.h"

namespace trainyard::store {
namespace {

struct Absent {
  std::string_view marker;
  std::string_view subject;  // of s3_errors.cc
  std::string_view message;
};

constexpr Absent kAbsent[] = {
    {"policy", "policy", "The bucket policy does not exist"},
    {"policyStatus", "policy", "The bucket policy does not exist"},
    {"lifecycle", "lifecycle", "The lifecycle configuration does not exist"},
    {"encryption", "encryption", "The server side encryption configuration was not found"},
    {"publicAccessBlock", "public-access-block",
     "The public access block configuration was not found"},
    {"website", "website", "The specified bucket does not have a website configuration"},
    {"replication", "replication", "The replication configuration was not found"},
    {"ownershipControls", "ownership", "The bucket ownership controls were not found"},
    {"object-lock", "lock-configuration",
     "Object Lock configuration does not exist for this bucket"},
    {"retention", "lock", "The specified object does not have a ObjectLock configuration"},
    {"legal-hold", "lock", "The specified object does not have a ObjectLock configuration"},
};

struct Empty {
  std::string_view marker;
  std::string_view document;  // inside the root element
  std::string_view root;
};

constexpr Empty kEmpty[] = {
    {"versioning", "", "VersioningConfiguration"},  // never enabled
    {"logging", "", "BucketLoggingStatus"},
    {"notification", "", "NotificationConfiguration"},
    {"accelerate", "", "AccelerateConfiguration"},
    {"requestPayment", "<Payer>BucketOwner</Payer>", "RequestPaymentConfiguration"},
};

Result<void> require_target(Call& call) {
  if (call.target.key.empty()) {
    return call.store.head_bucket(call.target.bucket);
  }
  YARD_TRY(const auto info, call.store.head(call.target.bucket, call.target.key));
  return {};
}

void respond_document(Call& call, std::string_view root, std::string_view document) {
  http::Response response;
  response.headers.set("Content-Type", "application/xml");
  response.body = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<" + std::string(root) +
                  " xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">" + std::string(document) +
                  "</" + std::string(root) + ">";
  call.respond(std::move(response));
}

bool is_private(std::string_view acl) {
  return acl == "private" || acl == "bucket-owner-full-control" || acl == "bucket-owner-read";
}

}  // namespace

Result<void> get_absent_configuration(Call& call) {
  YARD_TRY(require_target(call));
  for (const Absent& absent : kAbsent) {
    if (call.target.has(absent.marker)) {
      return Error{Code::kNotFound, std::string(absent.message), std::string(absent.subject)};
    }
  }
  return Error{Code::kInternal, "a route leads nowhere"};
}

Result<void> get_empty_configuration(Call& call) {
  YARD_TRY(require_target(call));
  for (const Empty& empty : kEmpty) {
    if (call.target.has(empty.marker)) {
      respond_document(call, empty.root, empty.document);
      return {};
    }
  }
  return Error{Code::kInternal, "a route leads nowhere"};
}

Result<void> delete_absent_configuration(Call& call) {
  YARD_TRY(require_target(call));
  call.respond({.status = 204});
  return {};
}

// There are no access lists: everything is its owner's.
Result<void> get_acl(Call& call) {
  YARD_TRY(require_target(call));
  const std::string id = "<ID>" + xml_text(call.options.account_id) + "</ID>";
  respond_document(
      call, "AccessControlPolicy",
      "<Owner>" + id +
          "</Owner><AccessControlList><Grant><Grantee "
          "xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type=\"CanonicalUser\">" +
          id + "</Grantee><Permission>FULL_CONTROL</Permission></Grant></AccessControlList>");
  return {};
}

// What changes nothing is accepted.
Result<void> put_acl(Call& call) {
  YARD_TRY(require_target(call));
  if (!is_private(call.headers().get("x-amz-acl"))) {
    return Error{Code::kUnimplemented,
                 "Access control lists are not implemented: only the canned ACL private is taken"};
  }
  call.respond({});
  return {};
}

}  // namespace trainyard::store
