// SPDX-License-Identifier: Apache-2.0
// What the files of the C face share: the handles, and errors as codes with messages.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "comm/c/yard_comm.h"
#include "comm/communicator.h"

using trainyard::Code;
using trainyard::Error;
using trainyard::Result;

struct yard_comm {
  std::unique_ptr<trainyard::comm::Communicator> own;
};

struct yard_work {
  trainyard::comm::Work own;
};

struct yard_buffer {
  std::shared_ptr<std::byte[]> own;
};

inline int code_of(const Error& error) {
  return static_cast<int>(error.code) + 1;
}

inline char* copy_of(const std::string& text) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy != nullptr) {
    std::memcpy(copy, text.c_str(), text.size() + 1);
  }
  return copy;
}

inline int report(const Error& error, char** message) {
  if (message != nullptr) {
    *message = copy_of(error.message);
  }
  return code_of(error);
}
