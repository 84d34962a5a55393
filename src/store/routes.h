// SPDX-License-Identifier: Apache-2.0
// Which operation a request is: by method, level (service, bucket, key), sub-resource and header.
// What S3 would take for another operation is refused by name, so that no unknown sub-resource acts
// as a plain GET, PUT or DELETE. Pure.
#pragma once

#include "base/result.h"
#include "http/message.h"
#include "store/handlers.h"
#include "store/target.h"

namespace trainyard::store {

struct Operation {
  Handler run = nullptr;
};

// kUnimplemented: naming the sub-resource, or subject "method". kInvalidArgument: a parameter that
// the operation does not take. kNotFound, subject "version": any version but "null".
Result<Operation> choose_operation(const http::Request& request, const Target& target);

}  // namespace trainyard::store
