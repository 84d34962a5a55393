// SPDX-License-Identifier: Apache-2.0
#include "base/result.h"

#include <cerrno>
#include <cstring>

namespace trainyard {
namespace {

Code code_of_errno(int value) {
  switch (value) {
    case ENOENT:
    case ESRCH:
      return Code::kNotFound;
    case EEXIST:
      return Code::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return Code::kDenied;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EFBIG:
      return Code::kExhausted;
    case EINVAL:
    case ENAMETOOLONG:
    case ELOOP:
      return Code::kInvalidArgument;
    case ENOTDIR:
    case EISDIR:
    case ENOTEMPTY:
    case EBUSY:
    case EXDEV:
    case EADDRINUSE:
      return Code::kConflict;
    case ETIMEDOUT:
      return Code::kDeadline;
    case ECANCELED:
      return Code::kCancelled;
    case ENOSYS:
    case EOPNOTSUPP:
      return Code::kUnimplemented;
    case EBADF:
    case EFAULT:
      return Code::kInternal;
    default:
      return Code::kUnavailable;
  }
}

}  // namespace

std::string_view name_of(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return "InvalidArgument";
    case Code::kNotFound:
      return "NotFound";
    case Code::kAlreadyExists:
      return "AlreadyExists";
    case Code::kConflict:
      return "Conflict";
    case Code::kDenied:
      return "Denied";
    case Code::kExhausted:
      return "Exhausted";
    case Code::kUnavailable:
      return "Unavailable";
    case Code::kDeadline:
      return "Deadline";
    case Code::kCancelled:
      return "Cancelled";
    case Code::kCorrupt:
      return "Corrupt";
    case Code::kUnimplemented:
      return "Unimplemented";
    case Code::kInternal:
      return "Internal";
  }
  return "Internal";
}

Error Error::in(std::string_view doing) const {
  Error outer = *this;
  outer.message = "while " + std::string(doing) + ": " + message;
  return outer;
}

Error errno_error(std::string_view what, int errno_value) {
  char buffer[128] = {};
  // The GNU form returns the text, which need not lie in the buffer.
  const char* text = strerror_r(errno_value, buffer, sizeof buffer);
  return {code_of_errno(errno_value), std::string(what) + ": " + text};
}

}  // namespace trainyard
