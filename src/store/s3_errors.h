// SPDX-License-Identifier: Apache-2.0
// From our errors to S3's: the one table of S3 error codes and HTTP statuses. The S3 face answers
// with them in XML; nobody else knows these names.
#pragma once

#include <string_view>

#include "base/result.h"
#include "http/sigv4.h"

namespace trainyard::store {

struct S3Error {
  std::string_view code;  // "NoSuchKey"
  int status = 500;
};

// By code and subject; a subject that the table does not know counts as none.
S3Error s3_error_of(const Error& error);

S3Error s3_error_of(http::AuthFailure failure);

// Whether the server's owner is to read of it: not what clients ask wrongly, nor that one has hung
// up in the middle.
bool is_logged(const Error& error);

}  // namespace trainyard::store
