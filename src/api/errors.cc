// SPDX-License-Identifier: Apache-2.0
#include "api/errors.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace trainyard::api {
namespace {

struct Row {
  Code code;
  std::string_view service;    // empty: any
  std::string_view operation;  // empty: any
  std::string_view subject;    // empty: any
  int status;
  std::string_view name;
  std::string_view message;  // empty: the error's own
};

constexpr std::string_view kNoJob = "Requested resource not found.";
constexpr std::string_view kNoGroup = "The specified log group does not exist.";
constexpr std::string_view kNoStream = "The specified log stream does not exist.";

// The first row that fits decides. Unknown training jobs are a ValidationException on AWS: waiters
// and SDKs rely on it.
constexpr Row kRows[] = {
    {Code::kUnimplemented, "", "", "operation", 400, "UnknownOperationException", ""},
    {Code::kNotFound, "", "", "operation", 400, "UnknownOperationException", ""},
    {Code::kInvalidArgument, "", "", "operation", 400, "UnknownOperationException", ""},
    {Code::kExhausted, "", "", "body", 413, "RequestEntityTooLargeException", ""},
    {Code::kInvalidArgument, "iam", "", "serialization", 400, "MalformedInput", ""},
    {Code::kInvalidArgument, "", "", "serialization", 400, "SerializationException", ""},

    {Code::kInvalidArgument, "logs", "", "", 400, "InvalidParameterException", ""},
    {Code::kNotFound, "logs", "", "log_stream", 400, "ResourceNotFoundException", kNoStream},
    {Code::kNotFound, "logs", "", "", 400, "ResourceNotFoundException", kNoGroup},
    {Code::kAlreadyExists, "logs", "", "", 400, "ResourceAlreadyExistsException", ""},
    {Code::kConflict, "logs", "", "", 400, "OperationAbortedException", ""},
    {Code::kExhausted, "logs", "", "", 400, "LimitExceededException", ""},
    {Code::kUnavailable, "logs", "", "", 503, "ServiceUnavailableException", ""},

    // The codes of CloudWatch's query protocol, which clients of its JSON protocol see, too.
    {Code::kInvalidArgument, "cloudwatch", "", "missing", 400, "MissingParameter", ""},
    {Code::kInvalidArgument, "cloudwatch", "", "combination", 400, "InvalidParameterCombination",
     ""},
    {Code::kInvalidArgument, "cloudwatch", "", "token", 400, "InvalidNextToken", ""},
    {Code::kInvalidArgument, "cloudwatch", "", "", 400, "InvalidParameterValue", ""},

    {Code::kDenied, "sts", "", "", 403, "AccessDenied", ""},
    {Code::kDenied, "iam", "", "", 403, "AccessDenied", ""},
    {Code::kNotFound, "iam", "", "", 404, "NoSuchEntity", ""},
    {Code::kInvalidArgument, "sts", "", "", 400, "ValidationError", ""},
    {Code::kInvalidArgument, "iam", "", "principal", 400, "InvalidInput", ""},
    {Code::kInvalidArgument, "iam", "", "", 400, "ValidationError", ""},

    {Code::kNotFound, "sagemaker", "DescribeTrainingJob", "", 400, "ValidationException", kNoJob},
    {Code::kNotFound, "sagemaker", "StopTrainingJob", "", 400, "ValidationException", kNoJob},
    {Code::kNotFound, "sagemaker", "DeleteTrainingJob", "", 400, "ValidationException", kNoJob},
    {Code::kConflict, "sagemaker", "StopTrainingJob", "", 400, "ValidationException", ""},
    {Code::kConflict, "sagemaker", "UpdateTrainingJob", "", 400, "ValidationException", ""},
    {Code::kConflict, "sagemaker", "DeleteTrainingJob", "", 400, "ResourceInUse", ""},

    {Code::kInvalidArgument, "", "", "", 400, "ValidationException", ""},
    {Code::kNotFound, "", "", "", 400, "ResourceNotFound", ""},
    {Code::kAlreadyExists, "", "", "", 400, "ResourceInUse", ""},
    {Code::kConflict, "", "", "", 400, "ConflictException", ""},
    {Code::kDenied, "", "", "", 400, "AccessDeniedException", ""},
    {Code::kExhausted, "", "", "", 400, "ResourceLimitExceeded", ""},
    // The next three are worth a retry, and clients retry a 503.
    {Code::kUnavailable, "", "", "", 503, "ServiceUnavailable", ""},
    {Code::kDeadline, "", "", "", 503, "ServiceUnavailable", ""},
    {Code::kCancelled, "", "", "", 503, "ServiceUnavailable", ""},
    {Code::kUnimplemented, "", "", "", 501, "NotImplemented", ""},
};

bool fits(const Row& row, const Error& error, std::string_view service,
          std::string_view operation) {
  return row.code == error.code && (row.service.empty() || row.service == service) &&
         (row.operation.empty() || row.operation == operation) &&
         (row.subject.empty() || row.subject == error.subject);
}

struct AuthRow {
  std::string_view failure;
  std::string_view json_name;
  std::string_view query_name;
  int query_status;
};

constexpr AuthRow kAuthRows[] = {
    {"missing", "MissingAuthenticationTokenException", "MissingAuthenticationToken", 403},
    {"malformed", "IncompleteSignatureException", "IncompleteSignature", 400},
    {"unknown-key", "UnrecognizedClientException", "InvalidClientTokenId", 403},
    {"bad-token", "UnrecognizedClientException", "InvalidClientTokenId", 403},
    {"expired-token", "ExpiredTokenException", "ExpiredToken", 403},
    {"skewed", "InvalidSignatureException", "SignatureDoesNotMatch", 403},
    {"expired", "InvalidSignatureException", "SignatureDoesNotMatch", 403},
    {"mismatch", "InvalidSignatureException", "SignatureDoesNotMatch", 403},
};

std::string_view plain_auth_message(std::string_view failure) {
  if (failure == "missing") {
    return "Missing Authentication Token";
  }
  if (failure == "unknown-key" || failure == "bad-token") {
    return "The security token included in the request is invalid.";
  }
  if (failure == "expired-token") {
    return "The security token included in the request is expired";
  }
  if (failure == "skewed" || failure == "expired") {
    return "Signature expired";
  }
  return "The request signature we calculated does not match the signature you provided. Check "
         "your AWS Secret Access Key and signing method.";
}

}  // namespace

WireError to_wire(const Error& error, std::string_view service, std::string_view operation) {
  const auto row = std::ranges::find_if(
      kRows, [&](const Row& candidate) { return fits(candidate, error, service, operation); });
  if (row == std::end(kRows)) {
    return {.code = "InternalFailure", .http_status = 500, .message = error.message};
  }
  return {.code = std::string(row->name),
          .http_status = row->status,
          .message = row->message.empty() ? error.message : std::string(row->message)};
}

WireError to_wire_auth(std::string_view failure, std::string message, Protocol protocol) {
  const auto found = std::ranges::find(kAuthRows, failure, &AuthRow::failure);
  const AuthRow& row = found == std::end(kAuthRows) ? *std::rbegin(kAuthRows) : *found;
  if (message.empty()) {
    message = plain_auth_message(failure);
  }
  // Clients look for this beginning: it makes them correct their clock and sign again.
  if (failure == "skewed" && !message.starts_with("Signature expired")) {
    message = "Signature expired: " + message;
  }
  const bool query = protocol == Protocol::kQuery;
  return {.code = std::string(query ? row.query_name : row.json_name),
          .http_status = query ? row.query_status : 400,
          .message = std::move(message)};
}

std::string json_error_body(const WireError& error) {
  nlohmann::ordered_json body;
  body["__type"] = error.code;
  body["message"] = error.message;
  return body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace trainyard::api
