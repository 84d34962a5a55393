// SPDX-License-Identifier: Apache-2.0
#include "store/s3_errors.h"

#include <gtest/gtest.h>

namespace trainyard::store {
namespace {

struct ErrorCase {
  Code code;
  const char* subject;
  const char* s3_code;
  int status;
  bool is_logged;
};

class S3Errors : public testing::TestWithParam<ErrorCase> {};

TEST_P(S3Errors, HaveTheNamesThatS3Gives) {
  const Error error{GetParam().code, "why", GetParam().subject};
  EXPECT_EQ(s3_error_of(error).code, GetParam().s3_code);
  EXPECT_EQ(s3_error_of(error).status, GetParam().status);
  EXPECT_EQ(is_logged(error), GetParam().is_logged);
}

INSTANTIATE_TEST_SUITE_P(
    Table, S3Errors,
    testing::Values(ErrorCase{Code::kNotFound, "bucket", "NoSuchBucket", 404, false},
                    ErrorCase{Code::kDenied, "access", "AccessDenied", 403, false},
                    // The disk's own, as errno_error() gives it for EACCES and EROFS.
                    ErrorCase{Code::kDenied, "", "InternalError", 500, true},
                    ErrorCase{Code::kInvalidArgument, "trailer", "MalformedTrailerError", 400,
                              false},
                    ErrorCase{Code::kConflict, "source", "OperationAborted", 409, false},
                    ErrorCase{Code::kUnimplemented, "", "NotImplemented", 501, false},
                    ErrorCase{Code::kExhausted, "", "InsufficientStorage", 507, true},
                    ErrorCase{Code::kUnavailable, "", "ServiceUnavailable", 503, true},
                    ErrorCase{Code::kUnavailable, "peer", "ServiceUnavailable", 503, false},
                    ErrorCase{Code::kCorrupt, "", "InternalError", 500, true}));

}  // namespace
}  // namespace trainyard::store
