// SPDX-License-Identifier: Apache-2.0
// What the parts of the shim share: the library's communicator with its end, and its errors as
// PyTorch's exceptions.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <unistd.h>

#include "gil.h"
#include "yard_comm.h"

namespace trainyard::torch_shim {

using Milliseconds = std::chrono::milliseconds;

// A message of the library's, taken over.
inline std::string taken(char* message) {
  std::string text = message == nullptr ? "" : message;
  yard_free(message);
  return text;
}

// ValueError for what the caller can correct, NotImplementedError, and DistBackendError for what
// happened to the group.
inline std::exception_ptr exception_of(int code, const std::string& text) {
  const c10::SourceLocation here{__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)};
  switch (code) {
    case YARD_INVALID_ARGUMENT:
      return std::make_exception_ptr(c10::ValueError(here, text));
    case YARD_UNIMPLEMENTED:
      return std::make_exception_ptr(c10::NotImplementedError(here, text));
    default:
      return std::make_exception_ptr(c10::DistBackendError(here, text));
  }
}

[[noreturn]] inline void fail(int code, const std::string& text) {
  std::rethrow_exception(exception_of(code, text));
}

inline void check(int code, char* message) {
  if (code != YARD_OK) {
    fail(code, taken(message));
  }
}

inline void require(bool condition, const std::string& text) {
  if (!condition) {
    fail(YARD_INVALID_ARGUMENT, text);
  }
}

// The process's own T, which lives until the process ends. A child of fork() gets another one: the
// threads of its parent's are not there, and its locks may be held for ever.
template <typename T>
T& of_this_process() {
  struct Owned {
    pid_t process = ::getpid();
    T value;
  };
  static std::atomic<Owned*> current = nullptr;
  Owned* own = current.load();
  while (own == nullptr || own->process != ::getpid()) {
    auto made = std::make_unique<Owned>();
    if (current.compare_exchange_strong(own, made.get())) {
      own = made.release();
    }
  }
  return own->value;
}

// Another backend's part in an end, on a thread of this shim or in a destructor: what it throws is
// said, and stops nothing.
template <typename Action>
void perform_whatever_it_throws(const char* what, const Action& action) noexcept {
  try {
    action();
  } catch (const std::exception& thrown) {
    TORCH_WARN(what, ": ", thrown.what());
  }
}

// Ends with its last reference: that of the backend, of an operation of a wrapped one, or of memory
// that is being allocated. Its end waits for its threads, so none of them may hold that reference.
class Communicator {
 public:
  explicit Communicator(yard_comm* own) : own_(own) {}
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator() {
    const WithoutGil release;  // it waits for what was issued
    yard_comm_free(own_);
  }
  yard_comm* get() const { return own_; }

 private:
  yard_comm* own_;
};
using CommunicatorPtr = std::shared_ptr<Communicator>;

// Backends of both kinds, for what Python asks beside c10d's own methods.
class Inspected {
 public:
  virtual ~Inspected() = default;
  virtual std::string flight_record() const = 0;
  virtual void abort_because(const std::string& reason) = 0;
};

}  // namespace trainyard::torch_shim
