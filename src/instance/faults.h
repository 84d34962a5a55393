// SPDX-License-Identifier: Apache-2.0
// Whose fault an error is, said by its code: the server turns kInvalidArgument, kNotFound, kDenied
// and kExhausted of an instance into ClientError, everything else into InternalServerError. An
// error is put on the right side where it is known what was being done.
#pragma once

#include <utility>

#include "base/result.h"

namespace trainyard::instance {

// While doing what the job asked for: what it named was wrong. A store that does not answer stays
// the platform's fault.
inline Error clients_fault(Error error) {
  if (error.code == Code::kCorrupt || error.code == Code::kConflict ||
      error.code == Code::kAlreadyExists || error.code == Code::kUnimplemented) {
    error.code = Code::kInvalidArgument;
  }
  return error;
}

// While doing what the platform owes: nothing here is the job's fault, except a full disk.
inline Error platforms_fault(Error error) {
  if (error.code == Code::kInvalidArgument || error.code == Code::kNotFound ||
      error.code == Code::kDenied) {
    error.code = Code::kInternal;
  }
  return error;
}

}  // namespace trainyard::instance
